select state, count(*)
from lifecycles
where machine = $1
group by state
order by state
