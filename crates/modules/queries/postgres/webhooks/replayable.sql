-- Events of a time range, a page at a time.
select id, type, created_at
from webhook_events
where created_at >= $1 and created_at < $2 and (created_at, id) > ($3, $4)
order by created_at, id
limit $5
