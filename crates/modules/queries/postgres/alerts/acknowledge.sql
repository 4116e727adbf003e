insert into alert_acknowledgements (alert_key, acknowledged_by, note, acknowledged_at)
select idempotency_key, $2, $3, 'epoch'::timestamptz + $4::bigint * interval '1 microsecond'
from outbox
where id = $1 and topic = 'backstitch.alerts'
on conflict (alert_key) do nothing
returning alert_key
