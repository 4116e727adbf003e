insert or fail into webhook_attempts (
    saga_id, job_id, number, status, response_code, body, duration_ms, error_code, error, started_at, finished_at,
    url, headers
)
select id, ?2, attempt_count + 1, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12
from webhook_delivery_sagas
where id = ?1
