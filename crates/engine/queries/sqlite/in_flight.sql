-- Along three indexes that hold nothing that is over: what somebody has, what waits for its time, and what waits for a word; of each
-- version no more than people care to count.
select version, owned + due + idle
from (
    select
        version,
        (
            select count(*)
            from (
                select 1
                from sagas indexed by sagas_owned
                where owner is not null
                    and sagas.definition = definitions.name
                    and sagas.version = definitions.version
                limit ?2
            )
        ) as owned,
        (
            select count(*)
            from (
                select 1
                from sagas indexed by sagas_unowned_due
                where owner is null
                    and wake_at is not null
                    and sagas.definition = definitions.name
                    and sagas.version = definitions.version
                limit ?2
            )
        ) as due,
        (
            select count(*)
            from (
                select 1
                from sagas indexed by sagas_adrift
                where owner is null
                    and wake_at is null
                    and paused in (0, 1)
                    and (status = 'pending' or status = 'running' or status = 'compensating')
                    and sagas.definition = definitions.name
                    and sagas.version = definitions.version
                limit ?2
            )
        ) as idle
    from definitions
    where name = ?1
)
where owned + due + idle > 0
order by version
