-- Alerts: who is to have them, who has them, who acknowledged them.

-- part: notice
planned.channel, planned.recipient, notice.attempts, notice.notified_at, notice.last_error

-- part: recipients
-- Those who are to have an alert, each with how it was told.
left join alert_recipients as planned on planned.alert_key = raised.alert_key
left join alert_notices as notice
    on notice.alert_key = planned.alert_key
    and notice.channel = planned.channel
    and notice.recipient = planned.recipient

-- name: list
-- Newest first, each once for every recipient of it, and once at least. The index is named, because without statistics
-- the whole outbox would be read.
select
    raised.id, raised.alert_key as idempotency_key, raised.payload, raised.created_at, taken.acknowledged_by, taken.note,
    taken.acknowledged_at, {notice}
from (
    select id, idempotency_key as alert_key, payload, created_at
    from outbox indexed by outbox_topic
    where topic = 'backstitch.alerts' and id < ?1
    order by id desc
    limit ?2
) as raised
left join alert_acknowledgements as taken on taken.alert_key = raised.alert_key
{recipients}
order by raised.id desc, planned.channel, planned.recipient

-- name: old
-- Alerts that were acknowledged or resolved before a time and whose delivery has ended, each once for every recipient, and once at
-- least. Open alerts stay.
select
    raised.id, raised.alert_key as idempotency_key, raised.payload, raised.created_at, raised.acknowledged_by, raised.note,
    raised.acknowledged_at, {notice}
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
{recipients}
order by raised.acknowledged_at, raised.id, planned.channel, planned.recipient

-- name: undelivered
-- Alerts raised before a time that are not out everywhere, oldest first, each once for every recipient of it, and once at
-- least. A thousand of those that wait are looked at, and as many messages of all topics that are on their way.
select raised.alert_key, raised.created_at, raised.last_error_msg, {notice}
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
    where created_at <= ?1
    order by id
    limit ?2
) as raised
{recipients}
order by raised.id, planned.channel, planned.recipient

-- name: told_so_far
-- When the alert was raised, once for each who has been told of it, and once at least.
select raised.created_at, told.channel, told.recipient
from (select ?1 as alert_key) as asked
left join outbox as raised
    on raised.topic = 'backstitch.alerts' and raised.idempotency_key = asked.alert_key and raised.retry_of is null
left join alert_notices as told
    on told.alert_key = asked.alert_key and told.notified_at is not null

-- name: plan_recipients
insert into alert_recipients (alert_key, channel, recipient)
select ?1, ?2, ?3
where not exists (
    select 1
    from alert_recipients
    where alert_key = ?1 and channel = ?2 and recipient = ?3
)

-- name: record_notice
insert into alert_notices (alert_key, channel, recipient, attempts, tried_at, notified_at, last_error)
select ?1, ?2, ?3, 1, ?4, ?5, ?6
where not exists (
    select 1
    from alert_notices
    where alert_key = ?1 and channel = ?2 and recipient = ?3 and notified_at is not null
)
on conflict (alert_key, channel, recipient) do update
set attempts = alert_notices.attempts + 1,
    tried_at = excluded.tried_at,
    notified_at = excluded.notified_at,
    last_error = coalesce(excluded.last_error, alert_notices.last_error)
where alert_notices.notified_at is null

-- name: exists
select exists (select 1 from outbox where id = ?1 and topic = 'backstitch.alerts') as is_alert

-- name: acknowledge
insert into alert_acknowledgements (alert_key, acknowledged_by, note, acknowledged_at)
select idempotency_key, ?2, ?3, ?4
from outbox
where id = ?1
    and topic = 'backstitch.alerts'
    and not exists (select 1 from alert_acknowledgements where alert_key = outbox.idempotency_key)

-- name: set_channels
-- Adds a channel to those that replace the earlier ones.
insert into alert_channels (channel, recipient)
values (?1, ?2)
