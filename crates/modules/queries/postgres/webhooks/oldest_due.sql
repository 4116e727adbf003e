-- Since when the oldest waiting delivery is due, for its job or for a worker. Ranges of both columns: see due.sql.
select min(next_attempt_at)
from (
    select (
        select next_attempt_at
        from webhook_delivery_sagas
        where
            (status, next_attempt_at) >= ('Pending', '-infinity') and status <= 'Pending'
            and id <> all (array(select item::bigint from parked_items where area = 'webhook_deliveries' and retry_at > clock()))
        order by status, next_attempt_at
        limit 1
    ) as next_attempt_at
    union all
    select (
        select next_attempt_at
        from webhook_delivery_sagas
        where
            (status, next_attempt_at) >= ('PendingRetry', '-infinity') and status <= 'PendingRetry'
            and id <> all (array(select item::bigint from parked_items where area = 'webhook_deliveries' and retry_at > clock()))
        order by status, next_attempt_at
        limit 1
    )
    union all
    select (
        select next_attempt_at
        from webhook_delivery_sagas
        where (status, next_attempt_at) >= ('InProgress', '-infinity') and status <= 'InProgress'
        order by status, next_attempt_at
        limit 1
    )
) as waiting
