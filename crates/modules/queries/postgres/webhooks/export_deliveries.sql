select
    s.id, s.event_id, s.subscription_id, s.status::text, s.attempt_count, s.final_error_code, s.webhook_id, s.requeue_of, s.replay_id,
    s.created_at, s.updated_at
from webhook_delivery_sagas as s
where s.id in (select id::bigint from json_array_elements_text($1::text::json) as chosen (id))
order by s.id
