-- Rejected where the owner has an active job for the subject.
insert or fail into jobs (saga_id, queue, subject, payload, until, created_at, alert)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
