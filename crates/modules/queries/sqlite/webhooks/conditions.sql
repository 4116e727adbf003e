-- The status of the newest deliveries of each chosen subscription, and its dead letters as far as they are counted.
select
    chosen.value,
    (
        select count(*)
        from (
            select 1
            from webhook_delivery_sagas as s indexed by idx_saga_subscription
            where s.subscription_id = chosen.value
            order by s.id desc
            limit ?2
        )
    ),
    (
        select count(*)
        from (
            select s.status
            from webhook_delivery_sagas as s indexed by idx_saga_subscription
            where s.subscription_id = chosen.value
            order by s.id desc
            limit ?2
        )
        where status = 'PendingRetry'
    ),
    (
        select count(*)
        from (
            select s.status
            from webhook_delivery_sagas as s indexed by idx_saga_subscription
            where s.subscription_id = chosen.value
            order by s.id desc
            limit ?2
        )
        where status = 'DeadLettered'
    ),
    (
        select count(*)
        from (
            select 1
            from dead_letters as d indexed by idx_dead_letter_subscription
            where d.subscription_id = chosen.value
            limit ?3
        )
    )
from json_each(?1) as chosen
order by chosen.key
