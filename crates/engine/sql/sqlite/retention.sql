-- Removes what is old enough.

-- name: old_sagas
-- A page of those that ended so, from the oldest on, each with whether it may go. Only what is due for nothing may: a hook
-- that is still to be called needs its saga. An id goes up with time: behind one that began too late nobody is old enough.
select
    s.id,
    s.updated_at < ?2
        and not exists (select 1 from jobs j where j.saga_id = s.id and j.status in ('Pending', 'Leased')) as old,
    s.created_at >= ?2 as young
from sagas s
where s.status = ?1 and s.id > ?3
order by s.id
limit ?4

-- name: log_sizes
-- How long a log is, by the heads of its rows.
select count(*) as events, coalesce(sum(octet_length(data)), 0) as bytes
from saga_events
where saga_id = ?1

-- name: remove_sagas
-- Whatever was seen before: what has been taken up again since, or has something due, stays.
delete from sagas
where id in (select unhex(value) from json_each(?1))
    and status = ?2
    and updated_at < ?3
    and not exists (select 1 from jobs j where j.saga_id = sagas.id and j.status in ('Pending', 'Leased'))
returning id

-- name: remove_attribute, sqlite only
delete from saga_attributes
where name = ?1 and value = ?2 and saga_id = ?3

-- name: remove_attributes, sqlite only
delete from saga_attributes
where saga_id = ?1

-- name: remove_log, sqlite only
delete from saga_events
where saga_id = ?1

-- name: remove_jobs, sqlite only
delete from jobs
where saga_id = ?1 and status in ('Completed', 'Failed')

-- name: remove_keys, sqlite only
delete from idempotency_ledger
where saga_id = ?1

-- name: old_messages
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
    octet_length(o.payload) as bytes,
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

-- name: remove_messages
-- One that was asked for again since it was looked at stays.
delete from outbox
where id in (select value from json_each(?1))
    and status in ('succeeded', 'aborted')
    and not exists (
        select 1 from outbox r where r.retry_of = outbox.id and r.status in ('pending', 'sending', 'failed')
    )
returning id
