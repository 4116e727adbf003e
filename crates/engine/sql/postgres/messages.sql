-- Messages of the outbox: published, read, sent again.

-- part: messages
-- What the ledger says of a key is said of its newest message.
select
    o.id, o.topic, o.idempotency_key, o.ordering_key, o.payload, o.expires_at, o.request_digest, o.status, o.attempts,
    o.in_doubt, o.due_at, o.locked_by, o.locked_at, o.retry_of, o.last_error_code, o.last_error_msg, l.result,
    o.created_at, o.updated_at
from outbox as o
    left join idempotency_ledger as l
        on l.scope = 'outbox/' || o.topic and l.key = o.idempotency_key and o.status = 'succeeded'

-- part: newest_of_key
-- The last retry of a message, or else the first message of its key. Each has an index.
coalesce(
    (select max(id) from outbox where topic = $1 and idempotency_key = $2 and retry_of is not null),
    (select id from outbox where topic = $1 and idempotency_key = $2 and retry_of is null)
)

-- name: by_id
{messages}
where o.id = $1

-- name: by_key
{messages}
where o.id = {newest_of_key}

-- name: find, postgres only
-- What the ledger says about these keys, and the newest message of each.
select
    w.topic, l.key, l.digest, l.at,
    coalesce(
        (
            select max(o.id)
            from $schema.outbox o
            where o.topic = w.topic and o.idempotency_key = w.key and o.retry_of is not null
        ),
        (
            select o.id
            from $schema.outbox o
            where o.topic = w.topic and o.idempotency_key = w.key and o.retry_of is null
        )
    ) as id
from unnest($1::text[], $2::text[]) as w (topic, key)
    join $schema.idempotency_ledger l on l.scope = 'outbox/' || w.topic and l.key = w.key

-- name: publish, postgres only
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
    insert into $schema.idempotency_ledger (scope, key, digest, at)
    select 'outbox/' || g.topic, g.key, g.digest, $7
    from given g
    where not exists (
        select
        from $schema.outbox o
        where o.topic = g.topic and o.idempotency_key = g.key and o.retry_of is null
    )
    order by 1, 2
    on conflict do nothing
    returning scope, key
)
insert into $schema.outbox (
    topic, idempotency_key, ordering_key, ordering_scope, payload, request_digest, expires_at, due_at, created_at,
    updated_at, counted
)
select
    g.topic, g.key, g.ordering_key, g.ordering_scope, g.payload, g.digest,
    -- By the clock that says when it is over, whatever the one shows that asked.
    coalesce($schema.clock() + g.lifetime * interval '1 microsecond', g.expires_at),
    least($7, $schema.clock()), $7, $7, $8
from given g
    join claimed c on c.scope = 'outbox/' || g.topic and c.key = g.key
order by g.place
on conflict (topic, idempotency_key) where retry_of is null do nothing
returning id, topic, idempotency_key

-- name: write, postgres only
-- A key that its topic has seen keeps the first message.
insert into outbox (due_at, created_at, updated_at, topic, idempotency_key, ordering_key, payload)
select least(m.at, clock()), m.at, m.at, m.topic, m.idempotency_key, m.ordering_key, m.payload
from unnest($1::timestamptz[], $2::text[], $3::text[], $4::text[], $5::text[])
    with ordinality as m (at, topic, idempotency_key, ordering_key, payload, place)
order by m.place
on conflict (topic, idempotency_key) where retry_of is null do nothing

-- name: of_topic, postgres only
{messages}
where o.id in (
    select newest.id
    from unnest($1::text[]) as asked (status)
        cross join lateral (
            select id
            from outbox
            where topic = $2 and status = asked.status and status <> 'sending' and id < $3
            order by id desc
            limit $4
        ) as newest
    union all
    -- The index of topics leaves these out: they are few, and soon something else.
    (
        select id
        from outbox
        where status = 'sending' and 'sending' = any ($1::text[]) and topic = $2 and id < $3
        order by id desc
        limit $4
    )
)
order by o.id desc
limit $4

-- name: retry
-- A new message with what the aborted one said; its time limit was for the first one.
with
asked as (
    select o.id, o.status, earlier.id as earlier
    from outbox o
        left join outbox earlier on earlier.retry_of = o.id
    where o.id = $1
),
new as (
    insert into outbox (
        topic, idempotency_key, ordering_key, ordering_scope, payload, request_digest, in_doubt, retry_of, due_at,
        created_at, updated_at
    )
    select
        o.topic, o.idempotency_key, o.ordering_key, o.ordering_scope, o.payload, o.request_digest, o.in_doubt, o.id,
        least($2, clock()), $2, $2
    from outbox o
        join asked using (id)
    where o.status = 'aborted' and asked.earlier is null
    on conflict (retry_of) where retry_of is not null do nothing
    returning id, topic, idempotency_key
),
told as (
    update idempotency_ledger
    set state = 'accepted', result = null
    from new
    where scope = 'outbox/' || new.topic and key = new.idempotency_key
)
select asked.status, asked.earlier, new.id as new
from asked
    left join new on true
