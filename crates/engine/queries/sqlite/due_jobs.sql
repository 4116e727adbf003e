select id, saga_id, queue, subject, payload, status, token, until, attempts, expiries, last_error
from jobs
where status = 'Pending' and lane is null and queue = ?1 and until <= ?2
order by until, id
limit ?3
