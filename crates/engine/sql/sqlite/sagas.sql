-- Sagas: their rows and logs.

-- part: summary
id, definition, version, status, paused, failed_step, owner, wake_at, correlation_id, created_at, updated_at

-- part: summaries
select {summary}
from

-- part: event
seq, at, type, step, attempt, data

-- name: load
select {summary}, inbox_seq
from sagas
where id = ?1

-- name: log
select {event}
from saga_events
where saga_id = ?1 and seq > ?2
    -- Lifecycles have their logs here too, and no sagas: whoever asks for one by its id finds nothing.
    and type not like 'action.%' and type not like 'lifecycle.%'
order by seq
limit ?3

-- name: heads
select max(seq) as seq from saga_events where saga_id = ?1

-- name: guard, sqlite only
-- What a decision is checked against: where the saga stands, its newest message and its newest event.
select status, inbox_seq, (select coalesce(max(seq), 0) from saga_events where saga_id = ?1) as seq
from sagas
where id = ?1

-- name: status, sqlite only
select status
from sagas
where id = ?1

-- name: insert, sqlite only
-- Refused where the saga exists.
insert or fail into sagas (
    id, definition, version, status, owner, wake_at, failed_step, correlation_id, created_at, updated_at
)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9)

-- name: insert_attribute, sqlite only
insert into saga_attributes (name, value, saga_id)
values (?1, ?2, ?3)

-- name: update, sqlite only
-- What a decision changes in the row of its saga. One row and one writer: there is nothing to go back to, so no journal is
-- kept in case the update fails.
update or fail sagas
set status = ?2, paused = ?3, failed_step = ?4, owner = ?5, wake_at = ?6, updated_at = ?7
where id = ?1

-- name: touch, sqlite only
-- The fence and the update of a saga that only goes on: its log ends with number ?9, and nothing of its row changes but the
-- time. Naming other columns would write their indexes anew.
update or fail sagas
set updated_at = ?7
where id = ?1
    and status = ?2
    and paused = ?3
    and failed_step is ?4
    and owner is ?5
    and wake_at is ?6
    and (?8 is null or inbox_seq = ?8)
    and (select max(seq) from saga_events where saga_id = ?1) = ?9

-- name: leave_owner, sqlite only
-- The fence and the update of a saga that leaves its owner, because it ends or waits: its log ends with number ?9.
update or fail sagas
set status = ?2, paused = ?3, failed_step = ?4, owner = ?5, wake_at = ?6, updated_at = ?7
where id = ?1
    and (status = 'running' or status = 'compensating' or status = 'pending')
    and (?8 is null or inbox_seq = ?8)
    and (select max(seq) from saga_events where saga_id = ?1) = ?9

-- name: stuck
-- What no living process has, along three indexes, none of which holds a saga that only waits for its time: what a life that
-- is over left behind, what has been due and nobody's for as long, and what nothing will ever move. Of each a thousand are looked
-- at, so that a backlog costs no more than that.
select {summary}
from (
    select *
    from (
        select {sagas.summary}
        from definitions
            cross join sagas indexed by sagas_owned
                on sagas.definition = definitions.name and sagas.version = definitions.version
        where sagas.owner is not null
            and sagas.owner < coalesce((select min(epoch) from nodes), 9223372036854775807)
            -- Whoever has the file now has not had it for longer.
            and not exists (select 1 from nodes where started_at > ?1)
        limit 1000
    )
    union all
    select *
    from (
        select {sagas.summary}
        from definitions
            cross join sagas indexed by sagas_unowned_due
                on sagas.definition = definitions.name and sagas.version = definitions.version
        where sagas.owner is null and sagas.wake_at is not null and sagas.wake_at <= ?1
        limit 1000
    )
    union all
    select *
    from (
        select {summary}
        from sagas indexed by sagas_adrift
        where owner is null
            and wake_at is null
            and paused = 0
            and (status = 'pending' or status = 'running' or status = 'compensating')
        order by definition, version, id
        limit 1000
    )
)
where updated_at <= ?1 and paused = 0
order by updated_at, id
limit ?2

-- name: orphaned
-- What nothing will ever move. The index begins with such sagas, so there is next to nothing to read.
select {summary}
from sagas indexed by sagas_adrift
where owner is null
    and wake_at is null
    and paused = 0
    and (status = 'pending' or status = 'running' or status = 'compensating')
    and not exists (
        select 1 from jobs where saga_id = sagas.id and status in ('Pending', 'Leased')
    )
order by definition, version, id
limit ?1
