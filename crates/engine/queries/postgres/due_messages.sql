-- First what a sender took and never settled, then what is due. Among messages with an ordering key only the first
-- unsent one may go, or a retry would be overtaken.
with
abandoned as (
    select id, locked_at as since
    from outbox
    where status = 'sending'
        and locked_at <= clock() - $1::bigint * interval '1 ms'
        and not exists (
            select
            from outbox as earlier
            where earlier.ordering_key is not null
                and earlier.status in ('pending', 'sending', 'failed')
                and earlier.topic = outbox.topic
                and earlier.ordering_key = outbox.ordering_key
                and earlier.id < outbox.id
        )
    order by locked_at
    limit $2
    for update skip locked
),
due as (
    select id, due_at as since
    from outbox
    where status in ('pending', 'failed')
        and due_at <= clock()
        and not exists (
            select
            from outbox as earlier
            where earlier.ordering_key is not null
                and earlier.status in ('pending', 'sending', 'failed')
                and earlier.topic = outbox.topic
                and earlier.ordering_key = outbox.ordering_key
                and earlier.id < outbox.id
        )
    order by due_at, id
    limit $2
    for update skip locked
),
taken as (
    select id, since, true as in_doubt from abandoned
    union all
    select id, since, false from due
    order by in_doubt desc, since, id
    limit $2
),
locked as (
    update outbox
    set status = 'sending', lock = lock + 1, locked_at = clock()
    from taken
    where outbox.id = taken.id
    returning
        outbox.id, topic, idempotency_key, ordering_key, payload, attempts, lock, taken.in_doubt, taken.since
)
select id, topic, idempotency_key, ordering_key, payload, attempts, lock, in_doubt
from locked
order by in_doubt desc, since, id
