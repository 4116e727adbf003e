select id, uid, type, webhook_id, payload, created_at
from webhook_events
where id in (select id::bigint from json_array_elements_text($1::text::json) as chosen (id))
order by id
