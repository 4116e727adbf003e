-- A page of those that ended so, from the oldest on, each with whether it may go. Only what is due for nothing may: a hook
-- that is still to be called needs its saga. An id goes up with time: behind one that began too late nobody is old enough.
select
    s.id,
    s.updated_at < ?2
        and not exists (select 1 from jobs j where j.saga_id = s.id and j.status in ('Pending', 'Leased')) as old,
    s.created_at >= ?2 as young
from sagas s
where s.status = ?1 and s.id > ?3
order by s.id
limit ?4
