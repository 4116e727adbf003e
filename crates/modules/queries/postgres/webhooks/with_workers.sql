-- What outside workers have, by lane and by the node that gave it to them.
select lane, handed_out_by, count(*)
from jobs
where status = 'Leased' and handed_out_by is not null
group by lane, handed_out_by
