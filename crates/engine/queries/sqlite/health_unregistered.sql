-- What nobody runs though it could go on: due and unowned, or left behind by a life that is over.
select definition, version, sum(sagas)
from (
    select definition, version, count(*) as sagas
    from sagas
    where owner is null and wake_at is not null and wake_at <= ?1
    group by definition, version
    union all
    select definition, version, count(*)
    from sagas
    where owner is not null and owner not in (select epoch from nodes)
    group by definition, version
)
group by definition, version
order by definition, version
