-- Alerts: who is to have them, who has them, who acknowledged them.

-- part: notice
planned.channel, planned.recipient, notice.attempts,
(extract(epoch from notice.notified_at) * 1000000)::bigint as notified_at, notice.last_error

-- part: recipients
-- Those who are to have an alert, each with how it was told.
left join alert_recipients as planned on planned.alert_key = raised.alert_key
left join alert_notices as notice
    on notice.alert_key = planned.alert_key
    and notice.channel = planned.channel
    and notice.recipient = planned.recipient

-- name: list
-- Newest first, each once for every recipient of it, and once at least.
select
    raised.id,
    raised.alert_key as idempotency_key,
    raised.payload,
    (extract(epoch from raised.created_at) * 1000000)::bigint as created_at,
    taken.acknowledged_by,
    taken.note,
    (extract(epoch from taken.acknowledged_at) * 1000000)::bigint as acknowledged_at,
    {notice}
from (
    select id, idempotency_key as alert_key, payload, created_at
    from outbox
    where topic = 'backstitch.alerts' and id < $1
    order by id desc
    limit $2
) as raised
left join alert_acknowledgements as taken on taken.alert_key = raised.alert_key
{recipients}
order by raised.id desc, planned.channel, planned.recipient

-- name: old
-- Alerts that were acknowledged or resolved before a time and whose delivery has ended, each once for every recipient, and once at
-- least. Open alerts stay.
select
    raised.id,
    raised.alert_key as idempotency_key,
    raised.payload,
    (extract(epoch from raised.created_at) * 1000000)::bigint as created_at,
    raised.acknowledged_by,
    raised.note,
    (extract(epoch from raised.acknowledged_at) * 1000000)::bigint as acknowledged_at,
    {notice}
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
{recipients}
order by raised.acknowledged_at, raised.id, planned.channel, planned.recipient

-- name: undelivered
-- Alerts raised before a time that are not out everywhere, oldest first, each once for every recipient of it, and once at
-- least. A thousand of those that wait are looked at, and as many messages of all topics that are on their way.
select
    raised.alert_key,
    (extract(epoch from raised.created_at) * 1000000)::bigint as created_at,
    raised.last_error_msg,
    {notice}
from (
    select id, idempotency_key as alert_key, created_at, last_error_msg
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
    where created_at <= 'epoch'::timestamptz + $1::bigint * interval '1 microsecond'
    order by id
    limit $2
) as raised
{recipients}
order by raised.id, planned.channel, planned.recipient

-- name: told_so_far
-- When the alert was raised, once for each who has been told of it, and once at least.
select
    (extract(epoch from raised.created_at) * 1000000)::bigint as created_at,
    told.channel,
    told.recipient
from (select $1::text as alert_key) as asked
left join outbox as raised
    on raised.topic = 'backstitch.alerts' and raised.idempotency_key = asked.alert_key and raised.retry_of is null
left join alert_notices as told
    on told.alert_key = asked.alert_key and told.notified_at is not null

-- name: plan_recipients
insert into alert_recipients (alert_key, channel, recipient)
select $1, planned.channel, planned.recipient
from unnest($2::text[], $3::text[]) as planned (channel, recipient)
on conflict do nothing
returning alert_key

-- name: record_notice
insert into alert_notices (alert_key, channel, recipient, attempts, tried_at, notified_at, last_error)
values (
    $1, $2, $3, 1,
    'epoch'::timestamptz + $4::bigint * interval '1 microsecond',
    'epoch'::timestamptz + $5::bigint * interval '1 microsecond',
    $6
)
on conflict (alert_key, channel, recipient) do update
set attempts = alert_notices.attempts + 1,
    tried_at = excluded.tried_at,
    notified_at = excluded.notified_at,
    last_error = coalesce(excluded.last_error, alert_notices.last_error)
where alert_notices.notified_at is null

-- name: exists
select exists (select 1 from outbox where id = $1 and topic = 'backstitch.alerts') as is_alert

-- name: acknowledge
insert into alert_acknowledgements (alert_key, acknowledged_by, note, acknowledged_at)
select idempotency_key, $2, $3, 'epoch'::timestamptz + $4::bigint * interval '1 microsecond'
from outbox
where id = $1 and topic = 'backstitch.alerts'
on conflict (alert_key) do nothing
returning alert_key

-- name: set_channels
-- Replaces the channels.
with removed as (
    delete from alert_channels
    where (channel, recipient) not in (
        select given.channel, given.recipient
        from unnest($1::text[], $2::text[]) as given (channel, recipient)
    )
)
insert into alert_channels (channel, recipient)
select given.channel, given.recipient
from unnest($1::text[], $2::text[]) as given (channel, recipient)
on conflict do nothing
returning channel
