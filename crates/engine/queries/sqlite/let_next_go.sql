-- The first one that was put aside behind a message that is settled now.
update outbox
set due_at = ?3
where id = (
    select id
    from outbox
    where ordering_key is not null
        and status in ('pending', 'sending', 'failed')
        and topic = ?1
        and ordering_key = ?2
        and due_at is null
        and status <> 'sending'
    order by id
    limit 1
)
