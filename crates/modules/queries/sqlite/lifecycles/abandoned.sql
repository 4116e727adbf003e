-- How many were abandoned in which state, counted no further than asked for.
select state, count(*)
from (
    select state
    from lifecycles
    where machine = ?1 and abandoned
    order by state, id
    limit ?2
) as counted
group by state
order by state
