-- The secret that was live until now stays so for a while. One that is promised to stay is not taken away unasked.
update webhook_subscriptions
set previous_secret = secret, previous_secret_until = ?3, secret = ?2, updated_at = max(?4, updated_at + 1)
where id = ?1 and deleted_at is null and (?5 = 1 or previous_secret_until is null or previous_secret_until <= ?4)
returning
    id, url, event_types, headers, max_retry_limit, base_delay_ms, max_delay_ms, timeout_ms, max_concurrency, rate_limit,
    secret, previous_secret, previous_secret_until, disabled_at, disabled_reason, created_at, updated_at
