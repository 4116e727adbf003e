-- Only if nobody has changed it meanwhile.
update webhook_subscriptions
set url = $3, event_types = $4, headers = $5, max_retry_limit = $6, base_delay_ms = $7, max_delay_ms = $8,
    timeout_ms = $9, max_concurrency = $10, rate_limit = $11, updated_at = $12
where id = $1 and updated_at = $2 and deleted_at is null
returning
    id, url, event_types, headers, max_retry_limit, base_delay_ms, max_delay_ms, timeout_ms, max_concurrency, rate_limit,
    secret, previous_secret, previous_secret_until, disabled_at, disabled_reason, created_at, updated_at
