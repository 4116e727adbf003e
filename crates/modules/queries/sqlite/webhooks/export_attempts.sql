select
    saga_id, job_id, number, status, started_at, finished_at, duration_ms, response_code, error_code, error, body,
    url, headers
from webhook_attempts
where saga_id in (select value from json_each(?1))
order by saga_id, job_id
