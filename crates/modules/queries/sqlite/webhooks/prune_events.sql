delete from webhook_events
where
    id in (select value from json_each(?1))
    and not exists (select 1 from webhook_delivery_sagas as s where s.event_id = webhook_events.id)
returning id
