-- A subscription that does not say how often it is retried follows the configured default, so these columns may be null.
alter table webhook_subscriptions
    alter column max_retry_limit drop not null,
    alter column base_delay_ms drop not null,
    alter column max_delay_ms drop not null;
