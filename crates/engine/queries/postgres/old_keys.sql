-- A page of keys of messages that were first used long ago, from the oldest on, each with whether its message is gone. Keys of
-- starts go with their sagas.
with
page as materialized (
    select scope, key, digest, state, result, at, saga_id
    from idempotency_ledger
    where saga_id is null
        and at < clock() - $1::bigint * interval '1 millisecond'
        and (at, scope, key) > ($2::timestamptz, $3::text, $4::text)
    order by at, scope, key
    limit $5
)
select
    l.scope, l.key, l.digest, l.state, l.result, l.at, l.saga_id,
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
