-- Deliveries whose next attempt is due.
select
    s.id, s.subscription_id, s.status, s.attempt_count, s.next_attempt_at, s.job_id, s.final_error_code,
    p.max_retry_limit, p.base_delay_ms, p.max_delay_ms, p.deleted_at is not null
from webhook_delivery_sagas as s indexed by idx_saga_status_retry
    cross join webhook_subscriptions as p on p.id = s.subscription_id
where
    s.status = ?1 and s.next_attempt_at <= ?2
    and s.id not in (select cast(item as integer) from parked_items where area = 'webhook_deliveries' and retry_at > ?2)
order by s.next_attempt_at
limit ?3
