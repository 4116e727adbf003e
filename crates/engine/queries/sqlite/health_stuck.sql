select id, definition, version, status, paused, failed_step, owner, wake_at, correlation_id, created_at, updated_at
from sagas
where status in ('pending', 'running', 'compensating')
    and updated_at <= ?1
    and paused = 0
    and (wake_at is null or wake_at <= ?2)
order by updated_at, id
limit ?3
