insert or fail into webhook_delivery_sagas (
    event_id, subscription_id, next_attempt_at, created_at, updated_at, webhook_id
)
values (?1, ?2, ?3, ?3, ?3, ?4)
