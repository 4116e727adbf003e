-- Brand-new deliveries from dead letters; one that was requeued before is left alone. The events are held until the
-- deliveries are written, so that nobody prunes them meanwhile.
insert into webhook_delivery_sagas (
    event_id, subscription_id, next_attempt_at, created_at, updated_at, webhook_id, requeue_of
)
select
    d.event_id, d.subscription_id, least($2, clock()), least($2, clock()), least($2, clock()), d.webhook_id, d.saga_id
from json_array_elements_text($1::text::json) as chosen (id)
    join dead_letters as d on d.saga_id = chosen.id::bigint
    join webhook_subscriptions as p on p.id = d.subscription_id
    join webhook_events as e on e.id = d.event_id
where p.deleted_at is null
order by d.saga_id
for key share of e
on conflict (requeue_of) where requeue_of is not null do nothing
returning requeue_of, id
