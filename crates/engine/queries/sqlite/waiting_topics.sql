-- From one topic to the next along the index: what it costs is the number of topics, not of messages.
with recursive
    waiting (topic) as (
        select min(topic) from outbox where due_at is not null
        union all
        select (select min(topic) from outbox where due_at is not null and topic > waiting.topic)
        from waiting
        where waiting.topic is not null
    )
select
    topic,
    (
        select min(due_at)
        from outbox
        where
            due_at is not null and topic = waiting.topic
            and id not in (select cast(item as integer) from parked_items where area = 'outbox' and retry_at > ?1)
    ) as due_at
from waiting
where topic is not null
