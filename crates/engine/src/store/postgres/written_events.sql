select e.saga_id, e.at, e.type, e.step, e.attempt, e.data
from unnest($1::uuid[], $2::integer[]) as f (saga_id, seq)
    join saga_events e on e.saga_id = f.saga_id and e.seq = f.seq
