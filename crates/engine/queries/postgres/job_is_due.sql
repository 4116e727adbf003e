-- Whether an owner has a job that is due and not leased.
select id
from jobs
where saga_id = $1 and status in ('Pending', 'Leased') and status = 'Pending' and until <= clock()
limit 1
