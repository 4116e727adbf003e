-- Keys first, in this order, so that no two who publish wait for each other. One under which the engine itself has said
-- something is left alone.
with
given as (
    select distinct on (topic, key) *
    from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::timestamptz[], $9::bigint[], $10::text[])
        with ordinality as g (topic, key, ordering_key, payload, digest, expires_at, lifetime, ordering_scope, place)
    order by topic, key, place
),
claimed as (
    insert into backstitch.idempotency_ledger (scope, key, digest, at)
    select 'outbox/' || g.topic, g.key, g.digest, $7
    from given g
    where not exists (
        select
        from backstitch.outbox o
        where o.topic = g.topic and o.idempotency_key = g.key and o.retry_of is null
    )
    order by 1, 2
    on conflict do nothing
    returning scope, key
)
insert into backstitch.outbox (
    topic, idempotency_key, ordering_key, ordering_scope, payload, request_digest, expires_at, due_at, created_at,
    updated_at, counted
)
select
    g.topic, g.key, g.ordering_key, g.ordering_scope, g.payload, g.digest,
    -- By the clock that says when it is over, whatever the one shows that asked.
    coalesce(backstitch.clock() + g.lifetime * interval '1 microsecond', g.expires_at),
    least($7, backstitch.clock()), $7, $7, $8
from given g
    join claimed c on c.scope = 'outbox/' || g.topic and c.key = g.key
order by g.place
on conflict (topic, idempotency_key) where retry_of is null do nothing
returning id, topic, idempotency_key
