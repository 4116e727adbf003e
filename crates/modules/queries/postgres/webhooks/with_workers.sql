-- What outside workers have from all nodes but this one, by lane.
select lane, handed_out_by, count(*)
from jobs
where status = 'Leased' and handed_out_by is not null and handed_out_by <> $1
group by lane, handed_out_by
