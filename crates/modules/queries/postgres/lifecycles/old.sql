-- A page of what has ended there, from the oldest on, each with whether it may go. An id goes up with time: behind one that
-- began too late nobody is old enough.
select id, updated_at < $3, created_at >= $3
from lifecycles
where machine = $1 and state = $2 and id > $4 and (ended or abandoned)
order by id
limit $5
