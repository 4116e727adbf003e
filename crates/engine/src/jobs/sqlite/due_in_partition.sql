-- The oldest due jobs of a partition.
select status, token, until, attempts, expiries, id, delivery_id, lane, last_error
from jobs indexed by jobs_due_in_lane
where
    status = 'Pending' and lane = ?1 and until <= ?2
    and id not in (select cast(item as integer) from parked_items where area = ?4 and retry_at > ?2)
order by id
limit ?3
