insert into alert_notices (alert_key, channel, recipient, attempts, tried_at, notified_at, last_error)
values (?1, ?2, ?3, 1, ?4, ?5, ?6)
on conflict (alert_key, channel, recipient) do update
set attempts = alert_notices.attempts + 1,
    tried_at = excluded.tried_at,
    notified_at = excluded.notified_at,
    last_error = coalesce(excluded.last_error, alert_notices.last_error)
where alert_notices.notified_at is null
