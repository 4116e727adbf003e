-- Brand-new deliveries from dead letters; one that was requeued before is left alone.
insert into webhook_delivery_sagas (
    event_id, subscription_id, next_attempt_at, created_at, updated_at, webhook_id, requeue_of
)
select d.event_id, d.subscription_id, ?2, ?2, ?2, d.webhook_id, d.saga_id
from json_each(?1) as chosen
    cross join dead_letters as d on d.saga_id = chosen.value
    cross join webhook_subscriptions as p on p.id = d.subscription_id
where p.deleted_at is null
    and not exists (select 1 from webhook_delivery_sagas as made where made.requeue_of = d.saga_id)
returning requeue_of, id
