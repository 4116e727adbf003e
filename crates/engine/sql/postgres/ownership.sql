-- Which node owns a saga.

-- part: picked
-- Sagas of dead owners, then due sagas without an owner.
with recursive
-- A node that was struck off takes nothing.
known as (
    select definition, version
    from unnest($1::text[], $2::integer[]) as k (definition, version)
    where exists (select from nodes where epoch = $3)
),
-- Every owner of a saga of these definitions, each found by one step through the index.
owners as (
    select
        k.definition, k.version,
        (
            select min(s.owner)
            from sagas s
            where s.owner is not null and s.definition = k.definition and s.version = k.version
        ) as epoch
    from known k
    union all
    select
        o.definition, o.version,
        (
            select min(s.owner)
            from sagas s
            where s.owner is not null
                and s.definition = o.definition
                and s.version = o.version
                and s.owner > o.epoch
        )
    from owners o
    where o.epoch is not null
),
orphaned as (
    select s.id
    from owners o
        cross join lateral (
            select id
            from sagas
            where owner is not null
                and definition = o.definition
                and version = o.version
                and owner = o.epoch
                and status in ('pending', 'running', 'compensating')
                and id <> all (array(select item::uuid from parked_items where area = 'adoption' and retry_at > clock()))
                and ($5::uuid[] is null or id = any ($5))
            limit $4
            for no key update skip locked
        ) as s
    where o.epoch is not null and not exists (select from nodes n where n.epoch = o.epoch)
    limit $4
),
due as (
    select s.id
    from known k
        cross join lateral (
            select id
            from sagas
            where owner is null
                and wake_at is not null
                and definition = k.definition
                and version = k.version
                and wake_at <= clock()
                and status in ('pending', 'running', 'compensating')
                and id <> all (array(select item::uuid from parked_items where area = 'adoption' and retry_at > clock()))
                and ($5::uuid[] is null or id = any ($5))
            order by wake_at
            limit greatest($4 - (select count(*) from orphaned), 0)
            for no key update skip locked
        ) as s
    limit greatest($4 - (select count(*) from orphaned), 0)
)

-- name: adopt, postgres only
-- A dead owner's saga is taken only if its `saga.adopted` is the next event of the log: this keeps out what the old owner may
-- still append. A saga without an owner was released by it, so there is nothing to keep out and its log stays as it is.
{picked},
appended as (
    insert into saga_events (at, saga_id, seq, type, data)
    select greatest(head.at, $6), taken.id, head.seq + 1, 'saga.adopted', $7
    from (select id from orphaned order by id) as taken
        cross join lateral (
            select seq, at
            from saga_events
            where saga_id = taken.id
            order by seq desc
            limit 1
        ) as head
    on conflict do nothing
    returning saga_id, seq, at
),
taken as (
    select saga_id as id, seq, at from appended
    union all
    select id, null, null from due
)
update sagas
set owner = $3, wake_at = null
from taken
where sagas.id = taken.id
returning sagas.id, sagas.definition, taken.seq, taken.at

-- name: candidates
{picked}
select id from orphaned
union all
select id from due

-- name: next_wake
select min(due.wake_at) as wake_at
from unnest($1::text[], $2::integer[]) as known (definition, version)
    cross join lateral (
        select min(wake_at) as wake_at
        from sagas
        where owner is null
            and wake_at is not null
            and definition = known.definition
            and version = known.version
            and id <> all (array(select item::uuid from parked_items where area = 'adoption' and retry_at > clock()))
    ) as due

-- name: release
-- Whoever posts locks the row first, so a message is either seen here or finds the saga let go.
with
released as (
    update sagas
    set owner = null, wake_at = $3
    where id = $1 and owner = $2 and inbox_seq = $4
        and (select max(seq) from saga_events where saga_id = $1) = $5
    returning id
),
answered as (
    delete from saga_inbox i
    using released r
    where i.saga_id = r.id and i.seq <= $4
)
select id
from released

-- name: release_all
-- In the order in which everybody locks them, so that no two wait for each other.
with
now as materialized (select clock() as at),
mine as (
    select id
    from sagas
    where owner is not null and owner = $1 and status in ('pending', 'running', 'compensating')
    order by id
    for no key update
),
struck as (
    delete from nodes where epoch = $1
)
update sagas
set owner = null, wake_at = (select at from now)
from mine
where sagas.id = mine.id

-- name: owned
select id
from sagas
where owner = $1
