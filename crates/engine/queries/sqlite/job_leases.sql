-- These jobs of items, and their leases.
select job.id, job.token, job.status, job.last_error, job.delivery_id, job.lane, job.lease_version
from jobs as job
where job.id in (select value from json_each(?1)) and job.delivery_id is not null
