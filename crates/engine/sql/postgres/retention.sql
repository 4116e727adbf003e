-- Removes what is old enough.

-- name: old_sagas
-- A page of those that ended so, from the oldest on, each with whether it may go. Only what is due for nothing may: a hook
-- that is still to be called needs its saga. An id goes up with time: behind one that began too late nobody is old enough.
select
    s.id,
    s.updated_at < clock() - $2::bigint * interval '1 millisecond'
        and not exists (select from jobs j where j.saga_id = s.id and j.status in ('Pending', 'Leased')) as old,
    s.created_at >= clock() - $2::bigint * interval '1 millisecond' as young
from sagas s
where s.status = $1 and s.id > $3
order by s.id
limit $4

-- name: log_sizes
-- How long logs are, without unpacking what they hold.
select saga_id, count(*) as events, coalesce(sum(octet_length(data)), 0)::bigint as bytes
from saga_events
where saga_id = any ($1)
group by saga_id

-- name: remove_sagas
-- Whatever was seen before: what has been taken up again since, or has something due, stays. Nobody is waited for.
with
old as (
    select s.id
    from sagas s
    where s.id = any ($1::uuid[])
        and s.status = $2
        and s.updated_at < clock() - $3::bigint * interval '1 millisecond'
        and not exists (select from jobs j where j.saga_id = s.id and j.status in ('Pending', 'Leased'))
    for update skip locked
)
delete from sagas
using old
where sagas.id = old.id
returning sagas.id

-- name: remove_rest_of_sagas, postgres only
-- What these sagas leave behind, whose rows are gone.
with
events as (delete from saga_events where saga_id = any ($1::uuid[]) returning 1),
attributes as (delete from saga_attributes where saga_id = any ($1::uuid[])),
messages as (delete from saga_inbox where saga_id = any ($1::uuid[])),
work as (
    delete from jobs where saga_id = any ($1::uuid[]) and status in ('Completed', 'Failed') returning 1
),
keys as (delete from idempotency_ledger where saga_id = any ($1::uuid[]) returning 1)
select
    (select count(*) from events) as events,
    (select count(*) from work) as jobs,
    (select count(*) from keys) as keys

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

-- name: remove_messages
-- One that was asked for again since it was looked at stays. Nobody is waited for.
with
old as (
    select o.id
    from outbox o
    where o.id = any ($1::bigint[])
        and o.status in ('succeeded', 'aborted')
        and not exists (select from outbox r where r.retry_of = o.id and r.status in ('pending', 'sending', 'failed'))
    for update skip locked
)
delete from outbox
using old
where outbox.id = old.id
returning outbox.id

-- name: acquire_lease, postgres only
-- One node at a time removes what is old.
with
lease as materialized (
    select clock() as now, clock() + $2::bigint * interval '1 millisecond' as until
),
free as (
    select turns.what
    from turns
        cross join lease
    where turns.what = 'retention' and (turns.holder = $1 or turns.until <= lease.now)
    for no key update of turns
),
acquired as (
    update turns
    set until = (select until from lease), holder = $1
    from free
    where turns.what = free.what
    returning turns.holder
),
first as (
    insert into turns (what, until, holder)
    select 'retention', until, $1
    from lease
    on conflict do nothing
    returning holder
)
select holder from acquired
union all
select holder from first
