select status, token, attempts, expiries, until, last_error, id, delivery_id
from jobs indexed by jobs_leased
where
    status = 'Leased' and queue = ?1 and until <= ?2
    and id not in (select cast(item as integer) from parked_items where area = 'webhook_jobs' and retry_at > ?2)
    and not exists (select 1 from webhook_rejected_reports where job_id = jobs.id)
order by until
limit ?3
