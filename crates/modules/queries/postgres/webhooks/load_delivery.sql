select
    id, event_id, subscription_id, status::text, attempt_count, next_attempt_at, final_error_code, created_at, updated_at,
    job_id, webhook_id, requeue_of, replay_id
from webhook_delivery_sagas
where id = $1
