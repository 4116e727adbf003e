-- Alerts raised before a time that are not out everywhere, oldest first, each once for every recipient of it, and once at
-- least. A thousand of those that wait are looked at, and as many messages of all topics that are on their way.
select
    raised.idempotency_key,
    raised.created_at,
    raised.last_error_msg,
    planned.channel,
    planned.recipient,
    notice.notified_at,
    notice.last_error
from (
    select id, idempotency_key, created_at, last_error_msg
    from (
        select id, idempotency_key, created_at, last_error_msg
        from (
            select id, idempotency_key, created_at, last_error_msg
            from outbox
            where topic = 'backstitch.alerts' and due_at is not null
            order by due_at
            limit 1000
        ) as waiting
        union all
        select id, idempotency_key, created_at, last_error_msg
        from (
            select topic, id, idempotency_key, created_at, last_error_msg
            from outbox
            where status = 'sending'
            order by id
            limit 1000
        ) as sending
        where topic = 'backstitch.alerts'
    ) as unsettled
    where created_at <= ?1
    order by id
    limit ?2
) as raised
left join alert_recipients as planned on planned.alert_key = raised.idempotency_key
left join alert_notices as notice
    on notice.alert_key = planned.alert_key
    and notice.channel = planned.channel
    and notice.recipient = planned.recipient
order by raised.id, planned.channel, planned.recipient
