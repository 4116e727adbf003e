-- Along three indexes that hold nothing that is over: what somebody has, what waits for its time, and what waits for a word; of each
-- version no more than people care to count.
select definitions.version, counted.sagas
from definitions
    cross join lateral (
        select count(*) as sagas
        from (
            (
                select 1
                from sagas
                where owner is not null and definition = definitions.name and version = definitions.version
                limit $2
            )
            union all
            (
                select 1
                from sagas
                where owner is null
                    and wake_at is not null
                    and definition = definitions.name
                    and version = definitions.version
                limit $2
            )
            union all
            (
                select 1
                from sagas
                where owner is null
                    and wake_at is null
                    and paused in (false, true)
                    and status in ('pending', 'running', 'compensating')
                    and definition = definitions.name
                    and version = definitions.version
                limit $2
            )
        ) as few
    ) as counted
where definitions.name = $1 and counted.sagas > 0
order by definitions.version
