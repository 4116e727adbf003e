update webhook_subscriptions
set disabled_at = null, disabled_reason = null, updated_at = max(?2, updated_at + 1)
where id = ?1 and deleted_at is null
returning
    id, url, event_types, headers, max_retry_limit, base_delay_ms, max_delay_ms, timeout_ms, max_concurrency, rate_limit,
    secret, previous_secret, previous_secret_until, disabled_at, disabled_reason, created_at, updated_at
