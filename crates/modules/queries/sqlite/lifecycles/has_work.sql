-- Whether anything waits in these queues, or was leased and may have been lost.
select 1
from jobs
where queue in (select value from json_each(?1)) and (status = 'Pending' or status = 'Leased')
limit 1
