select status, token, attempts, expiries, until, last_error, id, delivery_id
from jobs indexed by jobs_due_in_lane
where status = 'Pending' and lane = ?1
order by id
limit ?2
