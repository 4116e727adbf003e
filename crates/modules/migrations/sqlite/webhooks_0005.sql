-- A subscription that does not say how often it is retried follows the configured default, so these columns may be null.
-- SQLite cannot drop NOT NULL otherwise; rebuilding the table would drop the triggers and references of others.
pragma writable_schema = on;

update sqlite_schema
set sql = replace(replace(replace(
    sql,
    'max_retry_limit       integer not null', 'max_retry_limit       integer'),
    'base_delay_ms         integer not null', 'base_delay_ms         integer'),
    'max_delay_ms          integer not null', 'max_delay_ms          integer')
where type = 'table' and name = 'webhook_subscriptions';

pragma writable_schema = reset;

-- Any other change of the schema makes open connections read it again.
drop index idx_subscription_disabled;
create index idx_subscription_disabled on webhook_subscriptions (id)
    where disabled_at is not null and deleted_at is null;
