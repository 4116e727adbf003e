select seq, at, type, step, attempt, data
from saga_events
where saga_id = $1 and seq > $2
order by seq
limit $3
