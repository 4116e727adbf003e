select
    job_id, number, status, response_code, body, duration_ms, error_code, error, started_at, finished_at, url, headers
from webhook_attempts
where saga_id = $1
order by job_id
limit $2
