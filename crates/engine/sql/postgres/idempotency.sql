-- The ledger of idempotency keys.

-- part: key
scope, key, digest, state, result, at, saga_id

-- name: find
select digest, saga_id, at
from $schema.idempotency_ledger
where scope = $1 and key = $2

-- name: of_sagas
select {key}
from idempotency_ledger
where saga_id = any ($1::uuid[])
order by scope, key

-- name: old
-- A page of keys of messages that were first used long ago, from the oldest on, each with whether its message is gone. Keys of
-- starts go with their sagas.
with
page as materialized (
    select {key}
    from idempotency_ledger
    where saga_id is null
        and at < clock() - $1::bigint * interval '1 millisecond'
        and (at, scope, key) > ($2::timestamptz, $3::text, $4::text)
    order by at, scope, key
    limit $5
)
select
    {l.key},
    not exists (
        select
        from outbox o
        where o.topic = substr(l.scope, 8) and o.idempotency_key = l.key and o.retry_of is null
    )
    and not exists (
        select
        from outbox o
        where o.topic = substr(l.scope, 8) and o.idempotency_key = l.key and o.retry_of is not null
    ) as old
from page l
order by l.at, l.scope, l.key

-- name: remove
-- Their messages are gone, and nobody has used them anew since. Nobody is waited for.
with
old as (
    select l.scope, l.key
    from unnest($1::text[], $2::text[], $3::timestamptz[]) as k (scope, key, at)
        join idempotency_ledger l on l.scope = k.scope and l.key = k.key and l.at = k.at
    where l.saga_id is null
    for update of l skip locked
)
delete from idempotency_ledger
using old
where idempotency_ledger.scope = old.scope and idempotency_ledger.key = old.key
returning idempotency_ledger.at
