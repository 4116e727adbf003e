-- Deliveries that ended, a page at a time, and whether each is old enough to go. One that was made from a dead letter
-- stays as long as that does, so that nobody requeues it twice.
select
    s.id, s.next_attempt_at,
    s.updated_at < ?2 and not exists (select 1 from dead_letters as d where d.saga_id = s.requeue_of)
from webhook_delivery_sagas as s indexed by idx_saga_status_retry
where s.status = ?1 and s.next_attempt_at < ?2 and (s.next_attempt_at, s.id) > (?3, ?4)
order by s.next_attempt_at, s.id
limit ?5
