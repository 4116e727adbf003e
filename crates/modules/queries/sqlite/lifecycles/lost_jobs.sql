-- Jobs in these queues that nobody brings back: the last lease that each may lose has run out.
select id
from jobs
where
    queue in (select value from json_each(?1))
    and status = 'Leased' and until <= ?3 and expiries + 1 >= ?2
    and id not in (select cast(item as integer) from parked_items where area = 'lifecycle_jobs' and retry_at > ?3)
order by until
limit 256
