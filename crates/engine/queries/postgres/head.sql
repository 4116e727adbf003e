-- One look into the index for each saga, however long its log is.
select s.id, s.status, h.seq
from sagas s
    cross join lateral (
        select e.seq from saga_events e where e.saga_id = s.id order by e.seq desc limit 1
    ) as h
where s.id = any ($1)
