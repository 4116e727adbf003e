-- Deliveries that ended, a page at a time in the order of their numbers, and whether each is old enough to go. One that was
-- made from a dead letter stays as long as that does, so that nobody requeues it twice. That is asked for as a value: `exists`
-- may be answered by reading all dead letters once for every page. A range of both columns, in whose order only
-- idx_saga_status_id gives them: see deliveries_by_status.sql.
select
    s.id, s.created_at,
    s.updated_at < $2 and (select d.saga_id from dead_letters as d where d.saga_id = s.requeue_of) is null
from webhook_delivery_sagas as s
where
    (s.status, s.id) > ($1::text::webhook_delivery_status, $3)
    and s.status <= $1::text::webhook_delivery_status
order by s.status, s.id
limit $4
