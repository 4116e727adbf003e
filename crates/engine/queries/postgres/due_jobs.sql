-- Each queue gives its oldest, found by index; the oldest of those are leased.
with
due as (
    select oldest.id
    from (select distinct unnest($1::text[])) as wanted (queue)
        cross join lateral (
            select id, until
            from jobs
            where
                status = 'Pending' and lane is null and queue = wanted.queue and until <= clock()
                and id <> all (array(select item::bigint from parked_items where area = 'jobs' and retry_at > clock()))
                and ($4::bigint[] is null or id = any ($4))
                -- A saga that is paused starts nothing: no worker gets what waits for one.
                and (
                    not starts_with(wanted.queue, 'work/')
                    or not exists (
                        select 1
                        from sagas
                        where sagas.id = jobs.saga_id and sagas.paused and sagas.status in ('pending', 'running', 'compensating')
                    )
                )
            order by until, id
            limit $3
            for update skip locked
        ) as oldest
    order by oldest.until, oldest.id
    limit $3
),
leased as (
    update jobs
    set status = 'Leased', token = token + 1, until = clock() + $2::bigint * interval '1 ms'
    from due
    where jobs.id = due.id
    returning jobs.*
),
-- The saga of each job is told in the same statement: the time of its attempt begins now. The subject is
-- `step:phase@attempt`.
taken as (
    select
        saga_id,
        json_build_object(
            'ask', 'leased',
            'step', split_part(subject, ':', 1),
            'phase', split_part(split_part(subject, ':', 2), '@', 1),
            'attempt', split_part(subject, '@', 2)::integer,
            'at', (extract(epoch from clock()) * 1000000)::bigint
        )::text as body,
        row_number() over (partition by saga_id order by id) as nth,
        count(*) over (partition by saga_id) as among
    from leased
    where starts_with(queue, 'work/') and subject ~ '^[^:@]+:(do|undo)@[0-9]{1,9}$'
),
-- In this order, so that no two of those who tell sagas wait for each other.
addressed as (
    select id
    from sagas
    where id in (select saga_id from taken) and status in ('pending', 'running', 'compensating')
    order by id
    for no key update
),
reached as (
    update sagas
    set inbox_seq = inbox_seq + taken.among, wake_at = clock()
    from addressed
        join taken on taken.saga_id = addressed.id and taken.nth = 1
    where sagas.id = addressed.id
    returning sagas.id, sagas.inbox_seq - taken.among as seen
),
posted as (
    insert into saga_inbox (at, saga_id, seq, body)
    select clock(), reached.id, reached.seen + taken.nth, taken.body
    from reached
        join taken on taken.saga_id = reached.id
)
select
    id, saga_id, queue, subject, payload, status, token, until, attempts, expiries, last_error,
    (select pg_notify(current_schema() || '_inbox', reached.id::text) from reached where reached.id = leased.saga_id)::text as told
from leased
order by id
