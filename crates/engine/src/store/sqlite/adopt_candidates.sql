-- Sagas of an earlier process, then due sagas without an owner. One process at a time has the file open, and every
-- process has a higher epoch than those before it.
select id, true as orphaned, lower(hex(id)) as hex
from sagas
where
    owner is not null and definition = ?1 and version = ?2 and owner < ?3
    and hex(id) not in (select upper(replace(item, '-', '')) from parked_items where area = 'adoption' and retry_at > ?4)
union all
select id, false as orphaned, lower(hex(id)) as hex
from sagas
where
    owner is null and wake_at is not null and definition = ?1 and version = ?2 and wake_at <= ?4
    and hex(id) not in (select upper(replace(item, '-', '')) from parked_items where area = 'adoption' and retry_at > ?4)
limit ?5
