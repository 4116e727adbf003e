-- The next queue after one, with the lease that is, or was, over first, along the index.
select queue, id, until
from jobs
where status = 'Leased' and queue > ?1
order by queue, until
limit 1
