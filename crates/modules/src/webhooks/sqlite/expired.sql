select status, token, attempts, expiries, until, last_error, id, delivery_id
from jobs indexed by jobs_leased
where status = 'Leased' and queue = ?1 and until <= ?2
order by until
limit ?3
