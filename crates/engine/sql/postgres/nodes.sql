-- Nodes and their heartbeats.

-- name: list
select epoch, name, started_at, heartbeat_at, heartbeat_at + lease_ms * interval '1 ms' > clock() as lives
from nodes
order by epoch desc
limit $1

-- name: join
insert into nodes (name, lease_ms, schema_version, products)
values ($1, $2, $3, $4::text::jsonb)
returning epoch

-- name: heartbeat
-- A node that is late is dead, even if no other node has noticed: another node may adopt its sagas at any moment.
with
now as materialized (select clock() as at),
alive as (
    select nodes.epoch
    from nodes
        cross join now
    where nodes.epoch = $1 and nodes.heartbeat_at + nodes.lease_ms * interval '1 ms' > now.at
    for no key update of nodes
)
update nodes
set heartbeat_at = (select at from now)
from alive
where nodes.epoch = alive.epoch
returning nodes.epoch

-- name: remove_dead, postgres only
-- A node that was removed cannot come back, so its sagas can be adopted. The end of its lease is kept in `turns`, for longer
-- than any threshold for stuck sagas.
with
now as materialized (select clock() as at, clock() - interval '30 days' as month_ago),
dead as (
    select nodes.epoch, nodes.name, nodes.heartbeat_at + nodes.lease_ms * interval '1 ms' as lease_ended_at
    from nodes
        cross join now
    where nodes.heartbeat_at + nodes.lease_ms * interval '1 ms' <= now.at
    for update of nodes
),
removed as (
    delete from nodes
    using dead
    where nodes.epoch = dead.epoch
    returning dead.epoch, dead.name, dead.lease_ended_at
),
forgotten as (
    delete from turns
    where starts_with(what, 'node/') and until <= (select month_ago from now)
)
insert into turns (what, until, holder)
select 'node/' || epoch, lease_ended_at, name
from removed
on conflict do nothing

-- name: clock, postgres only
select clock() as clock

-- name: share_written_answers, postgres only
-- A node that is dead by the database's clock writes nothing any more, so nothing waits for it. One that has just joined,
-- or that knows nothing of this, says nothing.
with
now as materialized (select clock() as at),
said as (
    update nodes
    set answers_written_until = $2
    where epoch = $1
)
select min(nodes.answers_written_until) as written_until
from nodes
    cross join now
where nodes.epoch <> $1 and nodes.heartbeat_at + nodes.lease_ms * interval '1 ms' > now.at
