select id, saga_id, queue, subject, payload, status, token, until, attempts, expiries, last_error
from jobs
where id = ?1 and saga_id is not null
