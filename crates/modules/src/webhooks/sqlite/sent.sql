-- What is sent for a delivery.
select s.attempt_count + 1, s.webhook_id, s.event_id, e.type, e.payload
from webhook_delivery_sagas as s
    cross join webhook_events as e on e.id = s.event_id
where s.id = ?1
