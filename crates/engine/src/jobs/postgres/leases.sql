-- The leases of these jobs, locked until the end of the transaction.
select id, status, token, attempts, expiries, until, last_error
from jobs
where id = any ($1) /*condition*/
order by id
for no key update
