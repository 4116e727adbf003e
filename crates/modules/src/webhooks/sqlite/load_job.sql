select status, token, attempts, expiries, until, last_error, id, delivery_id
from jobs
where id = ?1 and delivery_id is not null
