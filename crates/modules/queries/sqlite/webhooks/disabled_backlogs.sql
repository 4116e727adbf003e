-- Subscriptions that are disabled while deliveries wait for them, with up to 1,000 of these counted.
select
    id,
    disabled_at,
    disabled_reason,
    (
        select count(*)
        from (select 1 from jobs where lane = subscriptions.id and status = 'Pending' limit 1000) as counted
    ) as waiting
from webhook_subscriptions as subscriptions
where disabled_at is not null
    and deleted_at is null
    and exists (select 1 from jobs where lane = subscriptions.id and status = 'Pending')
order by id
limit ?1
