-- A page of those that were settled so, from the oldest on, each with whether it may go. What an unfinished retry stands for is
-- kept, and a retry for as long as what it stands for: asked for again, it is found.
-- Numbers go up with time, so where the first one is that cannot be old enough is found by halving, and no index has to
-- tell it with every message that is settled.
with recursive
horizon (low, high) as (
    select (select min(id) from outbox), (select max(id) + 1 from outbox)
    union all
    select
        case when probe.created_at < clock() - $2::bigint * interval '1 millisecond' then probe.id + 1 else low end,
        case when probe.created_at < clock() - $2::bigint * interval '1 millisecond' then high else (low + high) / 2 end
    from horizon
        join outbox as probe on probe.id = (select min(id) from outbox where id >= (low + high) / 2)
    where low < high
),
page as materialized (
    select id, topic, retry_of, updated_at, octet_length(payload)::bigint as bytes
    from outbox
    where status = $1 and id > $5 and id < (select max(low) from horizon)
    order by id
    limit $3
)
select
    o.id,
    o.bytes,
    o.topic is distinct from $4
        and o.updated_at < clock() - $2::bigint * interval '1 millisecond'
        and not exists (
            select from outbox r where r.retry_of = o.id and r.status in ('pending', 'sending', 'failed')
        )
        and not exists (select from outbox a where a.id = o.retry_of) as old
from page o
order by o.id
