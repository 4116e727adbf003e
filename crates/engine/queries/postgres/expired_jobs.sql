-- A lease that ran out costs no attempt, but a job that nobody brings back is given up after so many of them. The saga that
-- waits for it is told in the same go; one that waits for several of them gets as many messages. What a product is to give up
-- itself is left to it.
with
expired as (
    select id
    from jobs
    where
        status = 'Leased' and queue = any ($1) and until <= answers_written_until()
        and not (expiries + 1 >= $2 and starts_with(queue, $5))
        and id <> all (array(select item::bigint from parked_items where area = 'jobs' and retry_at > clock()))
        and ($7::bigint[] is null or id = any ($7))
    for update skip locked
),
put_back as (
    update jobs
    set status = case when expiries + 1 >= $2 then 'Failed' else 'Pending' end,
        expiries = expiries + 1,
        until = clock(),
        last_error = $6
    from expired
    where jobs.id = expired.id
    returning jobs.id, jobs.saga_id, jobs.status, jobs.queue, jobs.payload
),
lost as (
    select
        saga_id, (payload::jsonb || $4::text::jsonb)::text as body,
        row_number() over (partition by saga_id order by id) as nth,
        count(*) over (partition by saga_id) as among
    from put_back
    where status = 'Failed' and starts_with(queue, $3)
),
-- In this order, so that no two of those who tell sagas wait for each other.
addressed as (
    select id
    from sagas
    where id in (select saga_id from lost) and status in ('pending', 'running', 'compensating')
    order by id
    for no key update
),
reached as (
    update sagas
    set inbox_seq = inbox_seq + lost.among, wake_at = clock()
    from addressed
        join lost on lost.saga_id = addressed.id and lost.nth = 1
    where sagas.id = addressed.id
    returning sagas.id, sagas.inbox_seq - lost.among as seen
),
posted as (
    insert into saga_inbox (at, saga_id, seq, body)
    select clock(), reached.id, reached.seen + lost.nth, lost.body
    from reached
        join lost on lost.saga_id = reached.id
)
select id as saga_id, pg_notify(current_schema() || '_inbox', id::text)::text as told
from reached
