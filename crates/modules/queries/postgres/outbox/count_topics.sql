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
        ) as waiting
    ),
    (
        select count(*)
        from (
            select
            from outbox as o
            where o.topic = topics.topic and o.status <> 'sending'
            order by o.topic, o.status, o.id
            limit $2
        ) as counted
    )
from (select topic from topics limit $1) as topics
