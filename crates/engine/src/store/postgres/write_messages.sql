-- A key that its topic has seen keeps the first message.
insert into outbox (due_at, created_at, updated_at, topic, idempotency_key, ordering_key, payload)
select least(m.at, clock()), m.at, m.at, m.topic, m.idempotency_key, m.ordering_key, m.payload
from unnest($1::timestamptz[], $2::text[], $3::text[], $4::text[], $5::text[])
    with ordinality as m (at, topic, idempotency_key, ordering_key, payload, place)
order by m.place
on conflict (topic, idempotency_key) where retry_of is null do nothing
