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
