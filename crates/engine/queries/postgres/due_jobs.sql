-- Each queue gives its oldest, found by index; the oldest of those are leased.
with
due as (
    select oldest.id
    from (select distinct unnest($1::text[])) as wanted (queue)
        cross join lateral (
            select id, until
            from jobs
            where
                status = 'Pending' and lane is null and queue = wanted.queue and until <= clock()
                -- A saga that is paused starts nothing: no worker gets what waits for one.
                and (
                    not starts_with(wanted.queue, 'work/')
                    or not exists (
                        select 1
                        from sagas
                        where sagas.id = jobs.saga_id and sagas.paused and sagas.status in ('pending', 'running', 'compensating')
                    )
                )
            order by until, id
            limit $3
            for update skip locked
        ) as oldest
    order by oldest.until, oldest.id
    limit $3
),
leased as (
    update jobs
    set status = 'Leased', token = token + 1, until = clock() + $2::bigint * interval '1 ms'
    from due
    where jobs.id = due.id
    returning jobs.*
)
select id, saga_id, queue, subject, payload, status, token, until, attempts, expiries, last_error
from leased
order by id
