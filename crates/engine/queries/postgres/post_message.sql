-- The row takes part, so that whoever ends the saga or lets it go sees that a message came in.
with
addressed as (
    select id, status
    from sagas
    where id = $1
    for no key update
),
reached as (
    update sagas
    set inbox_seq = inbox_seq + 1, wake_at = clock()
    from addressed
    where sagas.id = addressed.id and addressed.status in ('pending', 'running', 'compensating')
    returning sagas.id, sagas.inbox_seq
),
posted as (
    insert into saga_inbox (at, saga_id, seq, body)
    select $2, id, inbox_seq, $3
    from reached
)
select status, (select pg_notify('backstitch_inbox', id::text) from reached)::text as told
from addressed
