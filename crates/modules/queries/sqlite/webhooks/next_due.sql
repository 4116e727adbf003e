-- When the next delivery is due that waits for its time.
select min(next_attempt_at)
from (
    select (
        select next_attempt_at
        from webhook_delivery_sagas indexed by idx_saga_status_retry
        where
            status = 'Pending'
            and id not in (select cast(item as integer) from parked_items where area = 'webhook_deliveries' and retry_at > ?1)
        order by next_attempt_at
        limit 1
    ) as next_attempt_at
    union all
    select (
        select next_attempt_at
        from webhook_delivery_sagas indexed by idx_saga_status_retry
        where
            status = 'PendingRetry'
            and id not in (select cast(item as integer) from parked_items where area = 'webhook_deliveries' and retry_at > ?1)
        order by next_attempt_at
        limit 1
    )
) as waiting
