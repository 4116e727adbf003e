insert into webhook_events (uid, type, payload, webhook_id, digest, created_at)
values (?1, ?2, ?3, ?4, ?5, ?6)
on conflict (uid) do nothing
returning id
