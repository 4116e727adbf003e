-- Refused where an event has this uid.
insert or fail into webhook_events (uid, type, payload, webhook_id, digest, created_at)
values (?1, ?2, ?3, ?4, ?5, ?6)
returning id
