-- A page of those that were settled so, from the oldest on, each with whether it may go. What an unfinished retry stands for is
-- kept, and a retry for as long as what it stands for: asked for again, it is found.
-- Numbers go up with time, so where the first one is that cannot be old enough is found by halving, and no index has to
-- tell it with every message that is settled.
with recursive
horizon (low, high) as (
    select (select min(id) from outbox), (select max(id) + 1 from outbox)
    union all
    select
        case when probe.created_at < ?2 then probe.id + 1 else low end,
        case when probe.created_at < ?2 then high else (low + high) / 2 end
    from horizon
        join outbox as probe on probe.id = (select min(id) from outbox where id >= (low + high) / 2)
    where low < high
)
select
    o.id,
    octet_length(o.payload),
    o.topic is not ?4
        and o.updated_at < ?2
        and not exists (
            select 1 from outbox r where r.retry_of = o.id and r.status in ('pending', 'sending', 'failed')
        )
        and not exists (select 1 from outbox a where a.id = o.retry_of) as old
from outbox o indexed by idx_outbox_status
where o.status = ?1 and o.id > ?5 and o.id < (select max(low) from horizon)
order by o.id
limit ?3
