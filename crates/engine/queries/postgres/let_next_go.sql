-- The first ones that were put aside behind messages that are settled now. They get back their place in the queue.
update outbox
set due_at = least(created_at, clock())
from unnest($1::text[], $2::text[]) as done (scope, ordering_key)
    cross join lateral (
        select id
        from outbox as aside
        where aside.ordering_key is not null
            and aside.status in ('pending', 'sending', 'failed')
            and aside.ordering_key = done.ordering_key
            and coalesce(aside.ordering_scope, aside.topic) = done.scope
            and aside.due_at is null
            and aside.status <> 'sending'
        order by id
        limit 1
    ) as next
where outbox.id = next.id and outbox.due_at is null and outbox.status in ('pending', 'failed')
