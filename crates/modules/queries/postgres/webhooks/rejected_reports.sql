-- Reports that are written now, unless the database rejects them again.
select job_id, report
from webhook_rejected_reports
where
    job_id > $1
    and job_id <> all (array(select item::bigint from parked_items where area = 'webhook_jobs' and retry_at > clock()))
order by job_id
limit $2
