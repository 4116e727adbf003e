-- What operators and the doctor ask.

-- name: active
-- Each no further than people care: a backlog of a million costs what ten thousand do.
select 'pending' as status, count(*) as count from (select 1 from sagas where status = 'pending' limit $1) as few
union all
select 'running' as status, count(*) as count from (select 1 from sagas where status = 'running' limit $1) as few
union all
select 'compensating' as status, count(*) as count from (select 1 from sagas where status = 'compensating' limit $1) as few
union all
select 'failed' as status, count(*) as count from (select 1 from sagas where status = 'failed' limit $1) as few

-- name: unregistered
-- What nobody runs though it could go on: due and unowned, or left behind by a life that is over; of each version no more than
-- people care to count.
with recursive
    owners (definition, version, owner) as (
        (
            select definition, version, owner
            from sagas
            where owner is not null
            order by definition, version, owner
            limit 1
        )
        union all
        select next.definition, next.version, next.owner
        from owners
            cross join lateral (
                select definition, version, owner
                from sagas
                where owner is not null
                    and (definition, version, owner) > (owners.definition, owners.version, owners.owner)
                order by definition, version, owner
                limit 1
            ) as next
    )
select definition, version, sum(sagas)::bigint as sagas
from (
    select definitions.name as definition, definitions.version, due.sagas
    from definitions
        cross join lateral (
            select count(*) as sagas
            from (
                select 1
                from sagas
                where owner is null
                    and wake_at is not null
                    and definition = definitions.name
                    and version = definitions.version
                    and wake_at <= clock()
                order by definition, version, wake_at
                limit $1
            ) as few
        ) as due
    union all
    select owners.definition, owners.version, left_behind.sagas
    from owners
        cross join lateral (
            select count(*) as sagas
            from (
                select 1
                from sagas
                where owner is not null
                    and definition = owners.definition
                    and version = owners.version
                    and owner = owners.owner
                limit $1
            ) as few
        ) as left_behind
    where owners.owner not in (
        select epoch from nodes where heartbeat_at + lease_ms * interval '1 ms' > clock()
    )
) as waiting
group by definition, version
having sum(sagas) > 0
order by definition, version

-- name: leased_queues
-- From one queue to the next along the index, each with the lease that is, or was, over first: how long that is past, in
-- microseconds.
with recursive
    found (queue, id, until) as (
        (
            select queue, id, until
            from jobs
            where status = 'Leased'
            order by queue, until
            limit 1
        )
        union all
        select next.queue, next.id, next.until
        from found
            cross join lateral (
                select queue, id, until
                from jobs
                where status = 'Leased' and queue > found.queue
                order by queue, until
                limit 1
            ) as next
    )
select queue, id, (extract(epoch from clock() - until) * 1000000)::bigint as late
from (
    select *, row_number() over (partition by split_part(queue, '/', 1) order by queue) as nth
    from found
) as numbered
where nth <= $1
order by queue

-- name: owners
-- From one owner to the next along the index: what it costs is the number of owners, not of sagas.
with recursive
    found (definition, version, owner) as (
        (
            select definition, version, owner
            from sagas
            where owner is not null
            order by definition, version, owner
            limit 1
        )
        union all
        select next.definition, next.version, next.owner
        from found
            cross join lateral (
                select definition, version, owner
                from sagas
                where owner is not null
                    and (definition, version, owner) > (found.definition, found.version, found.owner)
                order by definition, version, owner
                limit 1
            ) as next
    )
select
    found.definition,
    found.version,
    found.owner,
    nodes.name,
    (extract(epoch from clock() - nodes.heartbeat_at) * 1000000)::bigint - nodes.lease_ms * 1000 as late
from (select definition, version, owner from found limit $1) as found
    left join nodes on nodes.epoch = found.owner
order by found.definition, found.version, found.owner

-- name: pending_queues
-- From one queue to the next along the index, each with the job that is due first: how long that is past, in
-- microseconds.
with recursive
    found (queue, id, until) as (
        (
            select queue, id, until
            from jobs
            where status = 'Pending' and lane is null
            order by queue, until
            limit 1
        )
        union all
        select next.queue, next.id, next.until
        from found
            cross join lateral (
                select queue, id, until
                from jobs
                where status = 'Pending' and lane is null and queue > found.queue
                order by queue, until
                limit 1
            ) as next
    )
select queue, id, (extract(epoch from clock() - until) * 1000000)::bigint as late
from (
    select *, row_number() over (partition by split_part(queue, '/', 1) order by queue) as nth
    from found
) as numbered
where nth <= $1
order by queue

-- name: waiting_sagas
-- From one definition to the next along the index, each with how long the first of its sagas that are nobody's has been due,
-- in microseconds: what it costs is the number of definitions, not of sagas.
with recursive
    found (definition, version, wake_at) as (
        (
            select definition, version, wake_at
            from sagas
            where owner is null and wake_at is not null
            order by definition, version, wake_at
            limit 1
        )
        union all
        select next.definition, next.version, next.wake_at
        from found
            cross join lateral (
                select definition, version, wake_at
                from sagas
                where owner is null
                    and wake_at is not null
                    and (definition, version) > (found.definition, found.version)
                order by definition, version, wake_at
                limit 1
            ) as next
    )
select definition, version, (extract(epoch from clock() - wake_at) * 1000000)::bigint as late
from found
limit $1

-- name: outbox_ages
-- When the oldest message was written that is not settled, and the one that one in twenty of these is older than. Numbers
-- and times rise together, so the place among them is found by numbers alone, along the index. Of more than 10,000 only the
-- oldest 10,000 are counted (`AGED`), so that no queue is too long to look at: the answer is then too old rather than too new.
with
unsent as (
    select id from (select id from outbox where status = 'pending' order by id limit 10000) as pending
    union all
    select id from (select id from outbox where status = 'sending' order by id limit 10000) as sending
    union all
    select id from (select id from outbox where status = 'failed' order by id limit 10000) as failed
),
counted as (
    select id from unsent order by id limit 10000
)
select
    (
        select min(created_at)
        from outbox
        where id in (
            (select min(id) from outbox where status = 'pending'),
            (select min(id) from outbox where status = 'sending'),
            (select min(id) from outbox where status = 'failed')
        )
    ) as oldest,
    (
        select created_at
        from outbox
        where id = (
            select id from counted order by id limit 1 offset (select count(*) / 20 from counted)
        )
    ) as old

-- name: server, postgres only
select
    current_setting('server_version_num')::integer as number,
    current_setting('server_version') as version,
    clock() as clock
