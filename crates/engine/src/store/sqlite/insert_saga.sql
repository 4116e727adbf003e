-- Refused where the saga exists.
insert or fail into sagas (
    id, definition, version, status, owner, wake_at, failed_step, correlation_id, created_at, updated_at
)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9)
