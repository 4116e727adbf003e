select
    id, webhook_id, digest, created_at,
    (
        select count(*)
        from webhook_delivery_sagas
        where event_id = webhook_events.id and requeue_of is null and replay_id is null
    )
from webhook_events
where uid = ?1
