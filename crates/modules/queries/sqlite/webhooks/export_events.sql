select id, uid, type, webhook_id, payload, created_at
from webhook_events
where id in (select value from json_each(?1))
order by id
