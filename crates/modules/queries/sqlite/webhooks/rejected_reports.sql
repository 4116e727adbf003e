-- Reports that are written now, unless the database rejects them again.
select job_id, report
from webhook_rejected_reports
where
    job_id > ?1
    and job_id not in (select cast(item as integer) from parked_items where area = 'webhook_jobs' and retry_at > ?3)
order by job_id
limit ?2
