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
