select status, token, until, attempts, expiries, id, delivery_id, lane, last_error
from jobs
where id = ?1 and delivery_id is not null
