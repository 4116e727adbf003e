-- Brand-new deliveries of events; one that this replay has made before is left alone.
insert into webhook_delivery_sagas (
    event_id, subscription_id, next_attempt_at, created_at, updated_at, webhook_id, replay_id
)
select e.id, ?2, ?4, ?4, ?4, e.webhook_id, ?3
from json_each(?1) as chosen
    cross join webhook_events as e on e.id = chosen.value
where not exists (
    select 1
    from webhook_delivery_sagas as made
    where made.replay_id = ?3 and made.event_id = e.id and made.subscription_id = ?2
)
returning id
