select status, token, attempts, expiries, until, last_error, id, delivery_id
from jobs indexed by jobs_due_in_lane
where
    status = 'Pending' and lane = ?1
    and id not in (select cast(item as integer) from parked_items where area = 'webhook_jobs' and retry_at > ?3)
order by id
limit ?2
