-- The oldest of a topic, and whether another one of its ordering key is ahead of it.
select
    id, topic, idempotency_key, ordering_key, payload, expires_at, attempts, lock, in_doubt, created_at,
    ordering_key is not null
    and exists (
        select 1
        from outbox as earlier
        where earlier.ordering_key is not null
            and earlier.status in ('pending', 'sending', 'failed')
            and earlier.ordering_key = outbox.ordering_key
            and coalesce(earlier.ordering_scope, earlier.topic) = coalesce(outbox.ordering_scope, outbox.topic)
            and earlier.id < outbox.id
    ) as is_behind,
    lock = 0 and not counted as uncounted
from outbox
where
    due_at is not null and topic = ?1 and due_at <= ?2
    and id not in (select cast(item as integer) from parked_items where area = 'outbox' and retry_at > ?2)
order by due_at, id
limit ?3
