-- The first events of those of these sagas that have no other.
select saga_id, seq, at, type, step, attempt, data
from saga_events
where saga_id = any ($1)
    and seq = 1
    and not exists (
        select from saga_events later where later.saga_id = saga_events.saga_id and later.seq = 2
    )
order by saga_id
