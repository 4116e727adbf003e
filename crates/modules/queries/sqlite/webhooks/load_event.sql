select id, uid, type, webhook_id, payload, created_at
from webhook_events
where id = ?1
