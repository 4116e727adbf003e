-- What the ledger says about these keys, and the newest message of each.
select
    w.topic, l.key, l.digest, l.at,
    coalesce(
        (
            select max(o.id)
            from backstitch.outbox o
            where o.topic = w.topic and o.idempotency_key = w.key and o.retry_of is not null
        ),
        (
            select o.id
            from backstitch.outbox o
            where o.topic = w.topic and o.idempotency_key = w.key and o.retry_of is null
        )
    ) as id
from unnest($1::text[], $2::text[]) as w (topic, key)
    join backstitch.idempotency_ledger l on l.scope = 'outbox/' || w.topic and l.key = w.key
