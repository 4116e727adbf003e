-- From one topic to the next along the index: what it costs is the number of topics, not of messages.
with recursive
    waiting (topic) as (
        (select topic from outbox where due_at is not null order by topic limit 1)
        union all
        select next.topic
        from waiting
            cross join lateral (
                select topic
                from outbox
                where due_at is not null and topic > waiting.topic
                order by topic
                limit 1
            ) as next
    )
select waiting.topic, first.due_at
from waiting
    cross join lateral (
        select due_at
        from outbox
        where due_at is not null and topic = waiting.topic
        order by due_at
        limit 1
    ) as first
