-- Alerts that were acknowledged or resolved before a time and whose delivery has ended, each once for every recipient, and once at
-- least. Open alerts stay.
select
    raised.id,
    raised.alert_key as idempotency_key,
    raised.payload,
    (extract(epoch from raised.created_at) * 1000000)::bigint as created_at,
    planned.channel,
    planned.recipient,
    notice.attempts,
    (extract(epoch from notice.notified_at) * 1000000)::bigint as notified_at,
    notice.last_error,
    raised.acknowledged_by,
    raised.note,
    (extract(epoch from raised.acknowledged_at) * 1000000)::bigint as acknowledged_at
from (
    select
        taken.alert_key, taken.acknowledged_by, taken.note, taken.acknowledged_at,
        message.id, message.payload, message.created_at
    from alert_acknowledgements as taken
        cross join lateral (
            select id, payload, created_at, status
            from outbox
            where topic = 'backstitch.alerts' and idempotency_key = taken.alert_key and retry_of is null
            union all
            select id, payload, created_at, status
            from outbox
            where topic = 'backstitch.alerts' and idempotency_key = taken.alert_key and retry_of is not null
        ) as message
    where taken.acknowledged_at < timestamptz 'epoch' + $1::bigint * interval '1 microsecond'
        and message.status in ('succeeded', 'aborted')
        and not exists (
            select
            from outbox as retry
            where retry.retry_of = message.id and retry.status in ('pending', 'sending', 'failed')
        )
    order by taken.acknowledged_at
    limit $2
) as raised
left join alert_recipients as planned on planned.alert_key = raised.alert_key
left join alert_notices as notice
    on notice.alert_key = planned.alert_key
    and notice.channel = planned.channel
    and notice.recipient = planned.recipient
order by raised.acknowledged_at, raised.id, planned.channel, planned.recipient
