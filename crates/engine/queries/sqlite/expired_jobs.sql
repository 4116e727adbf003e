select id, saga_id, queue, subject, payload, status, token, until, attempts, expiries, last_error
from jobs
where status = 'Leased' and queue = ?1 and until <= ?2
