-- What outside workers have leased, by partition and by the node that leased it out.
select lane, lease_holder, count(*)
from jobs indexed by jobs_held
where status = 'Leased' and lease_holder is not null
group by lane, lease_holder
