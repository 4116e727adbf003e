-- Keys of messages that are gone. Those of starts have a saga.
with
old as (
    select l.scope, l.key
    from idempotency_ledger l
    where l.saga_id is null
        and l.at < clock() - $1::bigint * interval '1 millisecond'
        and not exists (
            select
            from outbox o
            where o.topic = substr(l.scope, 8) and o.idempotency_key = l.key and o.retry_of is null
        )
        and not exists (
            select
            from outbox o
            where o.topic = substr(l.scope, 8) and o.idempotency_key = l.key and o.retry_of is not null
        )
    order by l.at
    limit $2
    for update skip locked
)
delete from idempotency_ledger
using old
where idempotency_ledger.scope = old.scope and idempotency_ledger.key = old.key
returning idempotency_ledger.at
