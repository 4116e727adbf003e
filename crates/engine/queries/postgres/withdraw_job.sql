-- One that no worker has: it waits, or its lease has run out. Its saga is told in the same go, by whether anybody ever had it.
with
found as (
    select id, token
    from jobs
    where
        saga_id = $1 and subject = $2 and status in ('Pending', 'Leased')
        and (status = 'Pending' or until <= clock())
    for no key update
),
withdrawn as (
    update jobs
    set status = 'Failed', last_error = 'withdrawn'
    from found
    where jobs.id = found.id
    returning found.token
),
reached as (
    update sagas
    set inbox_seq = inbox_seq + 1, wake_at = clock()
    from withdrawn
    where sagas.id = $1 and sagas.status in ('pending', 'running', 'compensating')
    returning sagas.id, sagas.inbox_seq, withdrawn.token
),
posted as (
    insert into saga_inbox (at, saga_id, seq, body)
    select $3, id, inbox_seq, case when token = 0 then $4 else $5 end
    from reached
)
select token, (select pg_notify(current_schema() || '_inbox', reached.id::text) from reached)::text as told
from withdrawn
