-- A key that its topic has seen keeps the first message.
insert into outbox (topic, idempotency_key, ordering_key, payload, due_at, created_at)
values (?1, ?2, ?3, ?4, ?5, ?5)
on conflict (topic, idempotency_key) do nothing
