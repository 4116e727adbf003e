-- Newest first.
select
    id, event_id, subscription_id, status, attempt_count, next_attempt_at, final_error_code, created_at, updated_at,
    job_id, webhook_id, requeue_of, replay_id
from webhook_delivery_sagas indexed by idx_saga_status
where status = ?1 and id < ?2
order by id desc
limit ?3
