insert into alert_recipients (alert_key, channel, recipient)
select $1, planned.channel, planned.recipient
from unnest($2::text[], $3::text[]) as planned (channel, recipient)
on conflict do nothing
returning alert_key
