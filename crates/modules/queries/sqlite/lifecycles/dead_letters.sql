select id, at, source, reason, body
from lifecycle_dead_letters
where id < coalesce(?1, 9223372036854775807)
order by id desc
limit ?2
