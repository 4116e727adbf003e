select saga_id, seq, at, type, step, attempt, data
from saga_events
where saga_id = any ($1) and seq = 1
order by saga_id
