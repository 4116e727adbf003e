-- First what a sender took and never settled, then what is due. Among messages with an ordering key only the first
-- unsent one may go, or a retry would be overtaken.
select * from (
    select id, topic, idempotency_key, ordering_key, payload, attempts, lock, 1 as in_doubt
    from outbox
    where status = 'sending'
        and locked_at <= ?2
        and not exists (
            select 1
            from outbox as earlier
            where earlier.ordering_key is not null
                and earlier.status in ('pending', 'sending', 'failed')
                and earlier.topic = outbox.topic
                and earlier.ordering_key = outbox.ordering_key
                and earlier.id < outbox.id
        )
    order by locked_at
    limit ?3
)
union all
select * from (
    select id, topic, idempotency_key, ordering_key, payload, attempts, lock, 0
    from outbox
    where status in ('pending', 'failed')
        and due_at <= ?1
        and not exists (
            select 1
            from outbox as earlier
            where earlier.ordering_key is not null
                and earlier.status in ('pending', 'sending', 'failed')
                and earlier.topic = outbox.topic
                and earlier.ordering_key = outbox.ordering_key
                and earlier.id < outbox.id
        )
    order by due_at, id
    limit ?3
)
limit ?3
