select id, definition, version, status, paused, failed_step, owner, wake_at, correlation_id, created_at, updated_at
from sagas
where status in ('pending', 'running', 'compensating')
    and updated_at <= $1
    and not paused
    and (wake_at is null or wake_at <= clock())
order by updated_at, id
limit $2
