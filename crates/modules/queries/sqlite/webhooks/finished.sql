-- Deliveries that ended, a page at a time in the order of their numbers, and whether each is old enough to go. One that was
-- made from a dead letter stays as long as that does, so that nobody requeues it twice.
select
    s.id, s.created_at,
    s.updated_at < ?2 and not exists (select 1 from dead_letters as d where d.saga_id = s.requeue_of)
from webhook_delivery_sagas as s indexed by idx_saga_status
where s.status = ?1 and s.id > ?3
order by s.id
limit ?4
