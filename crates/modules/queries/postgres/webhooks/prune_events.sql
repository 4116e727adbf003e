-- A delivery may have been made after they were found, and before they were held.
delete from webhook_events
where
    id in (select id::bigint from json_array_elements_text($1::text::json) as chosen (id))
    and not exists (select 1 from webhook_delivery_sagas as s where s.event_id = webhook_events.id)
returning id
