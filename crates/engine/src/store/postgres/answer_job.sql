-- The answer of an outside worker: the job is over and its saga is told, or neither. Answers with the job as it was before.
with
found as (
    select id, saga_id, status, token
    from jobs
    where id = $1 and saga_id is not null
    for no key update
),
settled as (
    update jobs
    set status = case when $3::text is null then 'Completed' else 'Failed' end,
        attempts = attempts + 1,
        last_error = coalesce($3, last_error)
    from found
    where jobs.id = found.id and found.status = 'Leased' and found.token = $2
    returning found.saga_id
),
reached as (
    update sagas
    set inbox_seq = inbox_seq + 1, wake_at = clock()
    from settled
    where sagas.id = settled.saga_id and sagas.status in ('pending', 'running', 'compensating')
    returning sagas.id, sagas.inbox_seq
),
posted as (
    insert into saga_inbox (at, saga_id, seq, body)
    select $4, id, inbox_seq, $5
    from reached
)
select id, status, token, (select pg_notify(current_schema() || '_inbox', reached.id::text) from reached)::text as told
from found
