-- Takes events and routes the new ones, all of it or nothing. Answers with those that are new.
with
given as (
    select *
    from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[]) with ordinality
        as g (uid, type, payload, webhook_id, digest, place)
),
fresh as (
    insert into webhook_events (created_at, uid, type, webhook_id, digest, payload)
    select clock(), uid, type, webhook_id, digest, payload
    from given
    -- In this order, so that no two of those who take the same events wait for each other, and the first telling counts.
    order by uid, place
    on conflict (uid) do nothing
    returning id, uid, type, webhook_id
),
wanted as (
    select distinct p.type, t.subscription_id
    from unnest($6::text[], $7::text[]) as p (type, pattern)
        join webhook_subscription_types as t using (pattern)
),
routed as (
    insert into webhook_delivery_sagas (
        event_id, subscription_id, next_attempt_at, created_at, updated_at, webhook_id
    )
    select fresh.id, wanted.subscription_id, clock(), clock(), clock(), fresh.webhook_id
    from fresh
        join wanted using (type)
    on conflict (event_id, subscription_id) where requeue_of is null and replay_id is null do nothing
    returning event_id
),
counted as (
    select event_id, count(*) as deliveries
    from routed
    group by event_id
)
select fresh.uid, fresh.id, fresh.webhook_id, coalesce(counted.deliveries, 0) as deliveries
from fresh
    left join counted on counted.event_id = fresh.id
