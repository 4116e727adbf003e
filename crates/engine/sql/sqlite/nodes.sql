-- Nodes and their heartbeats.

-- name: list
select epoch, name, started_at
from nodes
order by epoch desc
limit ?1

-- name: join
insert into nodes (name, started_at, heartbeat_at, lease_ms)
values (?1, ?2, ?2, ?3)

-- name: heartbeat
update nodes
set heartbeat_at = ?2
where epoch = ?1

-- name: remove_all, sqlite only
-- A new process owns the file, so no other one is alive.
delete from nodes

-- name: leave, sqlite only
delete from nodes
where epoch = ?1
