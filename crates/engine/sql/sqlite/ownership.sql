-- Which node owns a saga.

-- name: candidates
-- Sagas of an earlier process, then due sagas without an owner. One process at a time has the file open, and every
-- process has a higher epoch than those before it.
select id, true as orphaned, lower(hex(id)) as item
from sagas
where
    owner is not null and definition = ?1 and version = ?2 and owner < ?3
    and hex(id) not in (select upper(replace(item, '-', '')) from parked_items where area = 'adoption' and retry_at > ?4)
union all
select id, false as orphaned, lower(hex(id)) as item
from sagas
where
    owner is null and wake_at is not null and definition = ?1 and version = ?2 and wake_at <= ?4
    and hex(id) not in (select upper(replace(item, '-', '')) from parked_items where area = 'adoption' and retry_at > ?4)
limit ?5

-- name: take, sqlite only
update or fail sagas
set owner = ?2, wake_at = null
where id = ?1

-- name: head, sqlite only
select seq, at
from saga_events
where saga_id = ?1
order by seq desc
limit 1

-- name: next_wake
select min(wake_at) as wake_at
from sagas
where
    owner is null and wake_at is not null and definition = ?1 and version = ?2
    and hex(id) not in (select upper(replace(item, '-', '')) from parked_items where area = 'adoption' and retry_at > ?3)

-- name: release
update sagas
set owner = null, wake_at = ?3
where id = ?1 and owner = ?2 and inbox_seq = ?4
    and (select max(seq) from saga_events where saga_id = ?1) = ?5

-- name: release_all
update sagas
set owner = null, wake_at = ?2
where owner is not null and owner = ?1

-- name: owned
select id
from sagas
where owner = ?1
