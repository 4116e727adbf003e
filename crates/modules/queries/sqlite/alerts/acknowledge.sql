insert into alert_acknowledgements (alert_key, acknowledged_by, note, acknowledged_at)
select idempotency_key, ?2, ?3, ?4
from outbox
where id = ?1
    and topic = 'backstitch.alerts'
    and not exists (select 1 from alert_acknowledgements where alert_key = outbox.idempotency_key)
