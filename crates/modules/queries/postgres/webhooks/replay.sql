-- Brand-new deliveries of events; one that this replay has made before is left alone. The events are held until the
-- deliveries are written, so that nobody prunes them meanwhile.
insert into webhook_delivery_sagas (
    event_id, subscription_id, next_attempt_at, created_at, updated_at, webhook_id, replay_id
)
select e.id, $2, least($4, clock()), least($4, clock()), least($4, clock()), e.webhook_id, $3
from json_array_elements_text($1::text::json) as chosen (id)
    join webhook_events as e on e.id = chosen.id::bigint
order by e.id
for key share of e
on conflict (replay_id, event_id, subscription_id) where replay_id is not null do nothing
returning id
