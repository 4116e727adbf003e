-- How long these events are.
select e.id, octet_length(e.payload)::bigint
from webhook_events as e
where e.id in (select id::bigint from json_array_elements_text($1::text::json) as chosen (id))
order by e.id
