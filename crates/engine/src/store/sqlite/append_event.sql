-- One row: there is nothing to undo when it is refused, so no statement journal is kept.
insert or fail into saga_events (saga_id, seq, at, type, step, attempt, data)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
