-- When the alert was raised, once for each who has been told of it, and once at least.
select raised.created_at, told.channel, told.recipient
from (select ?1 as alert_key) as asked
left join outbox as raised
    on raised.topic = 'backstitch.alerts' and raised.idempotency_key = asked.alert_key and raised.retry_of is null
left join alert_notices as told
    on told.alert_key = asked.alert_key and told.notified_at is not null
