-- The first one that was put aside behind a message that is settled now. It gets back its place in the queue.
update or fail outbox
set due_at = min(created_at, ?3)
where id = (
    select id
    from outbox
    where ordering_key is not null
        and status in ('pending', 'sending', 'failed')
        and ordering_key = ?2
        and coalesce(ordering_scope, topic) = ?1
        and due_at is null
        and status <> 'sending'
    order by id
    limit 1
)
