-- Those of these events that are old enough and have no delivery, but for those that somebody is about to send once more:
-- whoever does that holds the event. From here on nobody else gets hold of them.
select e.id
from webhook_events as e
where
    e.id in (select id::bigint from json_array_elements_text($1::text::json) as chosen (id))
    and e.created_at < $2
    and not exists (select from webhook_delivery_sagas as s where s.event_id = e.id)
order by e.id
for update of e skip locked
