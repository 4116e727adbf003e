-- The delivery of each status that has been due longest, for its job or for a worker.
select next_attempt_at, id, subscription_id
from (
    select next_attempt_at, id, subscription_id
    from webhook_delivery_sagas indexed by idx_saga_status_retry
    where
        status = 'Pending'
        and id not in (select cast(item as integer) from parked_items where area = 'webhook_deliveries' and retry_at > ?1)
    order by next_attempt_at
    limit 1
) as pending
union all
select next_attempt_at, id, subscription_id
from (
    select next_attempt_at, id, subscription_id
    from webhook_delivery_sagas indexed by idx_saga_status_retry
    where
        status = 'PendingRetry'
        and id not in (select cast(item as integer) from parked_items where area = 'webhook_deliveries' and retry_at > ?1)
    order by next_attempt_at
    limit 1
) as retrying
union all
select next_attempt_at, id, subscription_id
from (
    select next_attempt_at, id, subscription_id
    from webhook_delivery_sagas indexed by idx_saga_status_retry
    where status = 'InProgress'
    order by next_attempt_at
    limit 1
) as begun
