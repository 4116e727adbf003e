-- Refused where the topic has a message of this key.
insert or fail into outbox (
    topic, idempotency_key, ordering_key, payload, request_digest, expires_at, due_at, created_at, updated_at, counted,
    ordering_scope
)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?7, ?8, ?9)
