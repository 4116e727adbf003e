-- How many messages there are of each status and topic.

-- name: count_messages
select count(*) as messages
from (select 1 from outbox indexed by idx_outbox_status where status = ?1 limit ?2)

-- name: count_topics
-- From each topic the index leads to the next one, past all of its messages.
with recursive
topics (topic) as (
    select min(topic) from outbox
    union all
    select (select min(o.topic) from outbox as o where o.topic > topics.topic)
    from topics
    where topics.topic is not null
    limit ?1
)
select
    topics.topic,
    (
        select count(*)
        from (select 1 from outbox as o indexed by outbox_due where o.topic = topics.topic and o.due_at is not null limit ?2)
    ) as waiting,
    (
        select count(*)
        from (select 1 from outbox as o indexed by outbox_topic where o.topic = topics.topic limit ?2)
    ) as counted
from topics
where topics.topic is not null
