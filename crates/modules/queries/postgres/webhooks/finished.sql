-- Deliveries that ended, a page at a time, and whether each is old enough to go. One that was made from a dead letter
-- stays as long as that does, so that nobody requeues it twice. That is asked for as a value: `exists` may be answered by
-- reading all dead letters once for every page.
select
    s.id, s.next_attempt_at,
    s.updated_at < $2 and (select d.saga_id from dead_letters as d where d.saga_id = s.requeue_of) is null
from webhook_delivery_sagas as s
where s.status = $1::text::webhook_delivery_status and s.next_attempt_at < $2 and (s.next_attempt_at, s.id) > ($3, $4)
order by s.next_attempt_at, s.id
limit $5
