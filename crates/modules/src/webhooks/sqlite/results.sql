-- Results that nobody has seen yet, each with its delivery.
select
    r.job_id, r.error_code, r.retry_after_ms, s.id, s.subscription_id, s.status, s.attempt_count, s.next_attempt_at,
    s.job_id, s.final_error_code, p.max_retry_limit, p.base_delay_ms, p.max_delay_ms, p.deleted_at is not null
from job_results as r
    cross join webhook_delivery_sagas as s on s.id = r.delivery_id
    cross join webhook_subscriptions as p on p.id = s.subscription_id
where r.job_id not in (select cast(item as integer) from parked_items where area = 'webhook_results' and retry_at > ?2)
order by r.job_id
limit ?1
