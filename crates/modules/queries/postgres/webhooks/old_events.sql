-- Events, a page at a time, and whether each has nobody left who refers to it.
select e.id, e.created_at, not exists (select 1 from webhook_delivery_sagas as s where s.event_id = e.id)
from webhook_events as e
where e.created_at < $1 and (e.created_at, e.id) > ($2, $3)
order by e.created_at, e.id
limit $4
