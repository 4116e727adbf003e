select
    id, definition, version, status, paused, failed_step, owner, wake_at, correlation_id, created_at, updated_at,
    inbox_seq
from sagas
where id = any ($1)
