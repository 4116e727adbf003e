-- Keeps a report whose lease lasts. The first one stays.
insert into webhook_rejected_reports (job_id, token, report)
select id, token, $3
from jobs
where id = $1 and token = $2 and status = 'Leased'
on conflict do nothing
returning job_id
