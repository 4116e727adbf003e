-- A new message with what the aborted one said; its time limit was for the first one.
with
asked as (
    select o.id, o.status, earlier.id as earlier
    from outbox o
        left join outbox earlier on earlier.retry_of = o.id
    where o.id = $1
),
new as (
    insert into outbox (
        topic, idempotency_key, ordering_key, ordering_scope, payload, request_digest, in_doubt, retry_of, due_at,
        created_at, updated_at
    )
    select
        o.topic, o.idempotency_key, o.ordering_key, o.ordering_scope, o.payload, o.request_digest, o.in_doubt, o.id,
        least($2, clock()), $2, $2
    from outbox o
        join asked using (id)
    where o.status = 'aborted' and asked.earlier is null
    on conflict (retry_of) where retry_of is not null do nothing
    returning id, topic, idempotency_key
),
told as (
    update idempotency_ledger
    set state = 'accepted', result = null
    from new
    where scope = 'outbox/' || new.topic and key = new.idempotency_key
)
select asked.status, asked.earlier, new.id as new
from asked
    left join new on true
