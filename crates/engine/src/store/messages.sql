select
    o.id, o.topic, o.idempotency_key, o.ordering_key, o.payload, o.expires_at, o.request_digest, o.status, o.attempts,
    o.in_doubt, o.due_at, o.locked_by, o.locked_at, o.retry_of, o.last_error_code, o.last_error_msg, l.result,
    o.created_at, o.updated_at
from outbox as o
    left join idempotency_ledger as l
        on l.scope = 'outbox/' || o.topic and l.key = o.idempotency_key and o.status = 'succeeded'
