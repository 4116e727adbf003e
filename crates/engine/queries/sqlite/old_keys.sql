-- A page of keys of messages that were first used long ago, from the oldest on, each with whether its message is gone. Keys of
-- starts go with their sagas.
select
    l.scope, l.key, l.digest, l.state, l.result, l.at, l.saga_id,
    not exists (
        select 1
        from outbox o
        where o.topic = substr(l.scope, 8) and o.idempotency_key = l.key and o.retry_of is null
    )
    and not exists (
        select 1
        from outbox o
        where o.topic = substr(l.scope, 8) and o.idempotency_key = l.key and o.retry_of is not null
    ) as old
from idempotency_ledger l indexed by ledger_of_messages
where l.saga_id is null and l.at < ?1 and (l.at, l.scope, l.key) > (?2, ?3, ?4)
order by l.at, l.scope, l.key
limit ?5
