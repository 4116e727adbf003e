-- A new message with what the aborted one said; its time limit was for the first one.
insert into outbox (
    topic, idempotency_key, ordering_key, ordering_scope, payload, request_digest, in_doubt, retry_of, due_at, created_at,
    updated_at
)
select topic, idempotency_key, ordering_key, ordering_scope, payload, request_digest, in_doubt, id, ?2, ?2, ?2
from outbox
where id = ?1
