-- From one topic to the next along the index: what it costs is the number of topics, not of messages. Told as waits of so
-- many microseconds, below zero where they are over, because whoever asks may have another clock.
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
select waiting.topic, (extract(epoch from first.due_at - clock()) * 1000000)::bigint as due_in
from waiting
    cross join lateral (
        select due_at
        from outbox
        where
            due_at is not null and topic = waiting.topic
            and id <> all (array(select item::bigint from parked_items where area = 'outbox' and retry_at > clock()))
        order by due_at
        limit 1
    ) as first
