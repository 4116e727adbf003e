-- The oldest of a lane, with what is to be sent.
select
    j.status, j.token, j.attempts, j.expiries, j.until, j.last_error, j.id, j.delivery_id, s.attempt_count + 1,
    s.webhook_id, s.event_id, e.type, e.payload
from jobs as j indexed by jobs_due_in_lane
    cross join webhook_delivery_sagas as s on s.id = j.delivery_id
    cross join webhook_events as e on e.id = s.event_id
where
    j.status = 'Pending' and j.lane = ?1 and j.until <= ?2
    and j.id not in (select cast(item as integer) from parked_items where area = 'webhook_jobs' and retry_at > ?2)
order by j.id
limit ?3
