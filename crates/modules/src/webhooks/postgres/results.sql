-- Results that nobody has seen yet, each with its delivery, which nobody else decides about meanwhile. A result that
-- somebody else has seen a moment ago comes with the delivery as that left it, and changes nothing.
select
    r.job_id, r.error_code, r.retry_after_ms, clock() as now, s.id, s.subscription_id as lane,
    s.status::text as status, s.attempt_count, s.next_attempt_at, s.job_id as newest_job, s.final_error_code,
    p.max_retry_limit, p.base_delay_ms, p.max_delay_ms, p.deleted_at is not null as is_deleted
from job_results as r
    join webhook_delivery_sagas as s on s.id = r.delivery_id
    join webhook_subscriptions as p on p.id = s.subscription_id
where r.job_id <> all (array(select item::bigint from parked_items where area = 'webhook_results' and retry_at > clock()))
order by r.job_id
limit $1
for update of s skip locked
