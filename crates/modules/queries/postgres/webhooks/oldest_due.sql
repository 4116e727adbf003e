-- The delivery of each status that has been due longest, for its job or for a worker. Ranges of both columns: see due.sql.
(
    select next_attempt_at, id, subscription_id
    from webhook_delivery_sagas
    where
        (status, next_attempt_at) >= ('Pending', '-infinity') and status <= 'Pending'
        and id <> all (array(select item::bigint from parked_items where area = 'webhook_deliveries' and retry_at > clock()))
    order by status, next_attempt_at
    limit 1
)
union all
(
    select next_attempt_at, id, subscription_id
    from webhook_delivery_sagas
    where
        (status, next_attempt_at) >= ('PendingRetry', '-infinity') and status <= 'PendingRetry'
        and id <> all (array(select item::bigint from parked_items where area = 'webhook_deliveries' and retry_at > clock()))
    order by status, next_attempt_at
    limit 1
)
union all
(
    select next_attempt_at, id, subscription_id
    from webhook_delivery_sagas
    where (status, next_attempt_at) >= ('InProgress', '-infinity') and status <= 'InProgress'
    order by status, next_attempt_at
    limit 1
)
