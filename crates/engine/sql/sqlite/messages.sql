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
    (select max(id) from outbox where topic = ?1 and idempotency_key = ?2 and retry_of is not null),
    (select id from outbox where topic = ?1 and idempotency_key = ?2 and retry_of is null)
)

-- name: by_id
{messages}
where o.id = ?1

-- name: by_key
{messages}
where o.id = {newest_of_key}

-- name: newest, sqlite only
select {newest_of_key} as id

-- name: first_of_key, sqlite only
select 1
from outbox
where topic = ?1 and idempotency_key = ?2 and retry_of is null

-- name: retried, sqlite only
select id
from outbox
where retry_of = ?1

-- name: retry
-- A new message with what the aborted one said; its time limit was for the first one.
insert into outbox (
    topic, idempotency_key, ordering_key, ordering_scope, payload, request_digest, in_doubt, retry_of, due_at, created_at,
    updated_at
)
select topic, idempotency_key, ordering_key, ordering_scope, payload, request_digest, in_doubt, id, ?2, ?2, ?2
from outbox
where id = ?1
