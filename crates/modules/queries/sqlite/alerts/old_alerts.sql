-- Alerts that were acknowledged or resolved before a time and whose delivery has ended, each once for every recipient, and once at
-- least. Open alerts stay.
select
    raised.id, raised.alert_key as idempotency_key, raised.payload, raised.created_at,
    planned.channel, planned.recipient, notice.attempts, notice.notified_at, notice.last_error,
    raised.acknowledged_by, raised.note, raised.acknowledged_at
from (
    select
        taken.alert_key, taken.acknowledged_by, taken.note, taken.acknowledged_at,
        message.id, message.payload, message.created_at
    from alert_acknowledgements as taken indexed by alert_acknowledgements_by_time
        cross join outbox as message on message.id in (
            select id
            from outbox
            where topic = 'backstitch.alerts' and idempotency_key = taken.alert_key and retry_of is null
            union all
            select id
            from outbox
            where topic = 'backstitch.alerts' and idempotency_key = taken.alert_key and retry_of is not null
        )
    where taken.acknowledged_at < ?1
        and message.status in ('succeeded', 'aborted')
        and not exists (
            select 1
            from outbox as retry
            where retry.retry_of = message.id and retry.status in ('pending', 'sending', 'failed')
        )
    order by taken.acknowledged_at
    limit ?2
) as raised
left join alert_recipients as planned on planned.alert_key = raised.alert_key
left join alert_notices as notice
    on notice.alert_key = planned.alert_key
    and notice.channel = planned.channel
    and notice.recipient = planned.recipient
order by raised.acknowledged_at, raised.id, planned.channel, planned.recipient
