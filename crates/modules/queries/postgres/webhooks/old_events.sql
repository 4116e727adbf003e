-- Events, a page at a time, and whether each has nobody left who refers to it. That is asked for as a value: `exists` may be
-- answered by reading all deliveries.
select
    e.id, e.created_at,
    (select s.id from webhook_delivery_sagas as s where s.event_id = e.id limit 1) is null
from webhook_events as e
where e.created_at < $1 and (e.created_at, e.id) > ($2, $3)
order by e.created_at, e.id
limit $4
