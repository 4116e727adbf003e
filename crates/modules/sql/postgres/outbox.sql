-- How many messages there are of each status and topic.

-- name: count_messages
-- Said as a range of both columns, which only the index by status has: a server that took a rare status for a common one
-- would otherwise read the table from its beginning.
select count(*) as messages
from (
    select
    from outbox
    where (status, id) > ($1, 0) and status <= $1
    order by status, id
    limit $2
) as counted

-- name: count_topics
-- From each topic the index leads to the next one, past all of its messages. It has those that are not being sent, which are
-- few and soon over.
with recursive
topics (topic) as (
    (select topic from outbox where status <> 'sending' order by topic, status, id limit 1)
    union all
    select next.topic
    from topics
        cross join lateral (
            select o.topic
            from outbox as o
            where o.topic > topics.topic and o.status <> 'sending'
            order by o.topic, o.status, o.id
            limit 1
        ) as next
)
select
    topics.topic,
    (
        select count(*)
        from (
            select
            from outbox as o
            where o.topic = topics.topic and o.due_at is not null
            order by o.topic, o.due_at, o.id
            limit $2
        ) as few
    ) as waiting,
    (
        select count(*)
        from (
            select
            from outbox as o
            where o.topic = topics.topic and o.status <> 'sending'
            order by o.topic, o.status, o.id
            limit $2
        ) as few
    ) as counted
from (select topic from topics limit $1) as topics
