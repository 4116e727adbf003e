-- Those of these events that are old enough and have no delivery.
select e.id
from json_each(?1) as chosen
    cross join webhook_events as e on e.id = chosen.value
where
    e.created_at < ?2
    and not exists (select 1 from webhook_delivery_sagas as s where s.event_id = e.id)
