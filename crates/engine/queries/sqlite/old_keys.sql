-- Keys of messages that are gone. Those of starts go with their sagas.
select l.scope, l.key, l.digest, l.state, l.result, l.at, l.saga_id
from idempotency_ledger l
where l.saga_id is null
    and l.at < ?1
    and not exists (
        select 1
        from outbox o
        where o.topic = substr(l.scope, 8) and o.idempotency_key = l.key and o.retry_of is null
    )
    and not exists (
        select 1
        from outbox o
        where o.topic = substr(l.scope, 8) and o.idempotency_key = l.key and o.retry_of is not null
    )
order by l.at
limit ?2
