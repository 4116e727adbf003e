-- Events that were taken before.
select
    e.uid, e.id, e.webhook_id, e.digest, e.created_at,
    (
        select count(*)
        from webhook_delivery_sagas
        where event_id = e.id and requeue_of is null and replay_id is null
    ) as deliveries
from webhook_events as e
where e.uid = any ($1)
