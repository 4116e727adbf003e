-- One look into the index for each log, however long it is.
select log.id, newest.seq
from unnest($1::uuid[]) as log (id)
    cross join lateral (
        select e.seq from saga_events e where e.saga_id = log.id order by e.seq desc limit 1
    ) as newest
