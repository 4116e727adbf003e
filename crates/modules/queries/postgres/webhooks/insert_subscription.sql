insert into webhook_subscriptions (
    id, url, event_types, headers, max_retry_limit, base_delay_ms, max_delay_ms, timeout_ms, max_concurrency,
    rate_limit, secret, created_at, updated_at, disabled_at, disabled_reason
)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $12, $13, $14)
returning
    id, url, event_types, headers, max_retry_limit, base_delay_ms, max_delay_ms, timeout_ms, max_concurrency, rate_limit,
    secret, previous_secret, previous_secret_until, disabled_at, disabled_reason, created_at, updated_at
