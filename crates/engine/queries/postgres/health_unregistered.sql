-- What nobody runs though it could go on: due and unowned, or left behind by a life that is over.
select definition, version, sum(sagas)::bigint as sagas
from (
    select definition, version, count(*) as sagas
    from sagas
    where owner is null and wake_at is not null and wake_at <= clock()
    group by definition, version
    union all
    select definition, version, count(*)
    from sagas
    where owner is not null
        and owner not in (
            select epoch from nodes where heartbeat_at + lease_ms * interval '1 ms' > clock()
        )
    group by definition, version
) as waiting
group by definition, version
order by definition, version
