-- Newest first, each once for every recipient of it, and once at least.
select
    raised.id,
    raised.idempotency_key,
    raised.payload,
    (extract(epoch from raised.created_at) * 1000000)::bigint as created_at,
    planned.channel,
    planned.recipient,
    notice.attempts,
    (extract(epoch from notice.notified_at) * 1000000)::bigint as notified_at,
    notice.last_error,
    taken.acknowledged_by,
    taken.note,
    (extract(epoch from taken.acknowledged_at) * 1000000)::bigint as acknowledged_at
from (
    select id, idempotency_key, payload, created_at
    from outbox
    where topic = 'backstitch.alerts' and id < $1
    order by id desc
    limit $2
) as raised
left join alert_acknowledgements as taken on taken.alert_key = raised.idempotency_key
left join alert_recipients as planned on planned.alert_key = raised.idempotency_key
left join alert_notices as notice
    on notice.alert_key = planned.alert_key
    and notice.channel = planned.channel
    and notice.recipient = planned.recipient
order by raised.id desc, planned.channel, planned.recipient
