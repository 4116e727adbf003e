select s.status, (select max(e.seq) from saga_events e where e.saga_id = s.id)
from sagas s
where s.id = ?1
