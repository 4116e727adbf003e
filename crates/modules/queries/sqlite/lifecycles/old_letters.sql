-- Numbers go up with time.
select id, at, source, reason, body, at < ?2
from lifecycle_dead_letters
where id > ?1
order by id
limit ?3
