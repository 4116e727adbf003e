-- Sagas of an earlier life, then those that are due and that nobody owns. Whoever has the file is the only one
-- alive, and every life has a higher number than those before it.
select id
from sagas
where owner is not null and definition = ?1 and version = ?2 and owner < ?3
union all
select id
from sagas
where owner is null and wake_at is not null and definition = ?1 and version = ?2 and wake_at <= ?4
limit ?5
