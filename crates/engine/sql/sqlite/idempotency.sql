-- The ledger of idempotency keys.

-- part: key
scope, key, digest, state, result, at, saga_id

-- name: find
select digest, saga_id, at
from idempotency_ledger
where scope = ?1 and key = ?2

-- name: of_sagas
select {key}
from idempotency_ledger
where saga_id in (select unhex(value) from json_each(?1))
order by scope, key

-- name: old
-- A page of keys of messages that were first used long ago, from the oldest on, each with whether its message is gone. Keys of
-- starts go with their sagas.
select
    {l.key},
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

-- name: remove
-- Its message is gone, and nobody has used it anew since.
delete from idempotency_ledger
where scope = ?1 and key = ?2 and saga_id is null and at = ?3

-- name: accept_again, sqlite only
update idempotency_ledger
set state = 'accepted', result = null
where scope = ?1 and key = ?2
