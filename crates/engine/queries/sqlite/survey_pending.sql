-- The next queue after one, with the job that is due first, along the index.
select queue, id, until
from jobs
where status = 'Pending' and lane is null and queue > ?1
order by queue, until
limit 1
