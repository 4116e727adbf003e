-- What operators and the doctor ask.

-- name: active
-- Each no further than people care: a backlog of a million costs what ten thousand do.
select 'pending' as status, count(*) as count from (select 1 from sagas where status = 'pending' limit ?1)
union all
select 'running' as status, count(*) as count from (select 1 from sagas where status = 'running' limit ?1)
union all
select 'compensating' as status, count(*) as count from (select 1 from sagas where status = 'compensating' limit ?1)
union all
select 'failed' as status, count(*) as count from (select 1 from sagas where status = 'failed' limit ?1)

-- name: unregistered
-- What nobody runs though it could go on: due and unowned, or left behind by a life that is over; of each version no more than
-- people care to count.
select name as definition, version, due + left_behind as sagas
from (
    select
        name,
        version,
        (
            select count(*)
            from (
                select 1
                from sagas indexed by sagas_unowned_due
                where owner is null
                    and wake_at is not null
                    and sagas.definition = definitions.name
                    and sagas.version = definitions.version
                    and wake_at <= ?1
                limit ?2
            )
        ) as due,
        (
            select count(*)
            from (
                select 1
                from sagas indexed by sagas_owned
                where owner is not null
                    and sagas.definition = definitions.name
                    and sagas.version = definitions.version
                    and owner < coalesce((select min(epoch) from nodes), 9223372036854775807)
                limit ?2
            )
        ) as left_behind
    from definitions
)
where due + left_behind > 0
order by name, version

-- name: leased_queues
-- The next queue after one, with the lease that is, or was, over first, along the index.
select queue, id, until
from jobs
where status = 'Leased' and queue > ?1
order by queue, until
limit 1

-- name: owners
-- The next owner after one, along the index: asked again and again, it costs the number of owners, not of sagas. Column by
-- column, because a comparison of rows would begin with those that are equal.
select definition, version, owner, (select name from nodes where epoch = owner) as name
from (
    select *
    from (
        select definition, version, owner
        from sagas
        where owner is not null and definition = ?1 and version = ?2 and owner > ?3
        order by owner
        limit 1
    )
    union all
    select *
    from (
        select definition, version, owner
        from sagas
        where owner is not null and definition = ?1 and version > ?2
        order by version, owner
        limit 1
    )
    union all
    select *
    from (
        select definition, version, owner
        from sagas
        where owner is not null and definition > ?1
        order by definition, version, owner
        limit 1
    )
)
order by definition, version, owner
limit 1

-- name: pending_queues
-- The next queue after one, with the job that is due first, along the index.
select queue, id, until
from jobs
where status = 'Pending' and lane is null and queue > ?1
order by queue, until
limit 1

-- name: waiting_sagas
-- The next definition after one, and when the first of its sagas that are nobody's is due, along the index. Column by column,
-- because a comparison of rows would begin with those that are equal.
select definition, version, wake_at
from (
    select *
    from (
        select definition, version, wake_at
        from sagas
        where owner is null and wake_at is not null and definition = ?1 and version > ?2
        order by version, wake_at
        limit 1
    )
    union all
    select *
    from (
        select definition, version, wake_at
        from sagas
        where owner is null and wake_at is not null and definition > ?1
        order by definition, version, wake_at
        limit 1
    )
)
order by definition, version
limit 1

-- name: outbox_ages
-- When the oldest message was written that is not settled, and the one that one in twenty of these is older than. Numbers
-- and times rise together, so the place among them is found by numbers alone, along the index. Of more than 10,000 only the
-- oldest 10,000 are counted (`AGED`), so that no queue is too long to look at: the answer is then too old rather than too new.
with
unsent as (
    select id from (select id from outbox where status = 'pending' order by id limit 10000)
    union all
    select id from (select id from outbox where status = 'sending' order by id limit 10000)
    union all
    select id from (select id from outbox where status = 'failed' order by id limit 10000)
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
