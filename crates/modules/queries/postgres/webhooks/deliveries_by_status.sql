-- Newest first. Said as a range of both columns, in whose order only indexes by status can give them: a server that took a
-- rare status for a common one would otherwise go through all deliveries by their numbers to find a page of it.
select
    id, event_id, subscription_id, status::text, attempt_count, next_attempt_at, final_error_code, created_at, updated_at,
    job_id, webhook_id, requeue_of, replay_id
from webhook_delivery_sagas as s
where
    (s.status, s.id) < ($1::text::webhook_delivery_status, $2)
    and s.status >= $1::text::webhook_delivery_status
order by s.status desc, s.id desc
limit $3
