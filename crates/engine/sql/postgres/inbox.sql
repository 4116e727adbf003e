-- Messages for sagas.

-- name: load
select saga_id, seq, body
from saga_inbox
where saga_id = any ($1)
order by saga_id, seq

-- name: newest
select saga_id, max(seq) as newest
from saga_inbox
join sagas on sagas.id = saga_inbox.saga_id
where sagas.owner = $1
group by saga_id

-- name: post
-- The row takes part, so that whoever ends the saga or lets it go sees that a message came in.
with
now as materialized (select clock() as at),
addressed as (
    select id, status
    from sagas
    where id = $1
    for no key update
),
reached as (
    update sagas
    set inbox_seq = inbox_seq + 1, wake_at = (select at from now)
    from addressed
    where sagas.id = addressed.id and addressed.status in ('pending', 'running', 'compensating')
    returning sagas.id, sagas.inbox_seq
),
posted as (
    insert into saga_inbox (at, saga_id, seq, body)
    select $2, id, inbox_seq, $3
    from reached
)
select status, (select pg_notify(current_schema() || '_inbox', id::text) from reached)::text as told
from addressed
