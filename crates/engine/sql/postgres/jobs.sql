-- Jobs: the lease queue. Marks such as `/*condition*/` are where a product extends a statement (`jobs::Extension`).

-- part: columns
id, saga_id, queue, subject, payload, status, token, until, attempts, expiries, last_error

-- part: due_in_queues_of
-- Due jobs of these queues: each queue gives its oldest, found by index; the oldest of those are picked.
-- $1 queues, $2 length of the lease, $3 limit, $4 only these, $5 area of parked items.
with due as (
    select
        oldest.id, clock() + $2::bigint * interval '1 ms' as lease_until, null::text as lease_holder,
        null::timestamptz as lease_version
    from (select distinct unnest($1::text[])) as wanted (queue)
        cross join lateral (
            select id, until
            from jobs
            where
                status = 'Pending' and lane is null and queue = wanted.queue and until <= clock()
                and id <> all (array(select item::bigint from parked_items where area = $5::text and retry_at > clock()))
                and ($4::bigint[] is null or id = any ($4))
                -- A paused saga starts nothing: its jobs are not leased.
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
)

-- part: due_in_partitions_of
-- Due jobs of these partitions: each gives its oldest, up to a number of its own.
-- $1 partitions, $2 limits, $3 lengths of the leases, $4 only these, $5 area of parked items, $6 lease holder, $7 versions.
with asked as (
    select *
    from unnest($1::bigint[], $2::bigint[], $3::bigint[], $7::timestamptz[])
        as asked (partition_id, most, lease_ms, version)
    where true /*condition*/
),
due as (
    select
        oldest.id, clock() + asked.lease_ms * interval '1 ms' as lease_until, $6::text as lease_holder,
        case when $6::text is not null then asked.version end as lease_version
    from asked
        cross join lateral (
            select id
            from jobs
            where
                status = 'Pending' and lane = asked.partition_id and until <= clock()
                and id <> all (array(select item::bigint from parked_items where area = $5::text and retry_at > clock()))
                and ($4::bigint[] is null or id = any ($4))
            order by id
            limit asked.most
            for update skip locked
        ) as oldest
)

-- part: lease
-- Leases the jobs in `due`.
leased as (
    update jobs
    set status = 'Leased',
        token = token + 1,
        until = due.lease_until,
        lease_holder = due.lease_holder,
        lease_version = due.lease_version
    from due
    where jobs.id = due.id
    returning jobs.*
)
/*then*/
select
    {job.columns}, job.delivery_id, job.lane /*columns*/
from leased as job
    /*joins*/
order by job.id

-- name: due_in_queues, postgres only
-- The jobs that `lease_from_queues` leases.
{due_in_queues_of}
select id
from due

-- name: lease_from_queues, postgres only
{due_in_queues_of},
{lease}

-- name: due_in_partitions, postgres only
-- The jobs that `lease_from_partitions` leases.
{due_in_partitions_of}
select id
from due

-- name: lease_from_partitions, postgres only
{due_in_partitions_of},
{lease}

-- name: settle, postgres only
-- Results and renewals of leases, each accepted only under the newest token. Returns each job as it was before, and until when
-- it is leased or waits now. A renewal or a returned job costs no attempt. The result of an item goes into the result inbox.
-- $1 jobs, $2 tokens, $3 statuses, $4 waits before a retry, $5 lengths of leases, $6 errors, $7 what the results say of a retry.
with report as (
    select *
    from unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[])
        as r (id, token, status, retry_us, lease_ms, error, retry_after_ms)
),
found as (
    select id, status, token, attempts, expiries, until, last_error
    from jobs
    where id = any ($1) /*condition*/
    order by id
    for no key update
),
accepted as (
    select
        r.id, r.status, r.error, r.retry_after_ms, case when r.lease_ms is null then 1 else 0 end as counted,
        coalesce(clock() + r.retry_us * interval '1 us', clock() + r.lease_ms * interval '1 ms', f.until) as until
    from report as r
        join found as f using (id)
    where f.status = 'Leased' and f.token = r.token
),
settled as (
    update jobs
    set status = a.status,
        until = a.until,
        attempts = attempts + a.counted,
        last_error = coalesce(a.error, last_error)
    from accepted as a
    where jobs.id = a.id
    returning jobs.id, jobs.saga_id, jobs.delivery_id, jobs.status, jobs.until, a.error, a.retry_after_ms
),
recorded as (
    insert into job_results (job_id, delivery_id, at, retry_after_ms, error_code)
    select id, delivery_id, clock(), retry_after_ms, error
    from settled
    where delivery_id is not null and status in ('Completed', 'Failed')
)
/*then*/
select found.*, settled.until as settled_until
from found
    left join settled using (id)

-- part: expired_jobs
-- Jobs whose lease has expired.
-- $1 queues, $2 limit, $3 only these, $4 area of parked items.
-- A worker's lease that ended before its answer could be written has not expired.
with
now as materialized (select clock() as at),
expired as (
    select job.id
    from jobs as job
    where
        status = 'Leased' and queue = any ($1::text[]) and until <= answers_written_until()
        and job.id <> all (array(select item::bigint from parked_items where area = $4::text and retry_at > clock()))
        and ($3::bigint[] is null or job.id = any ($3))
        /*condition*/
    order by until
    limit $2
    for update skip locked
)

-- name: expired, postgres only
-- The jobs that `expire` returns to their queues.
{expired_jobs}
select id
from expired

-- name: expire, postgres only
-- Returns the jobs in `expired` to their queues, at no cost of an attempt. The last lease that a job may lose fails it.
-- $5 leases that a job may lose, $6 error.
{expired_jobs},
returned as (
    update jobs
    set status = case when expiries + 1 >= $5::integer then 'Failed' else 'Pending' end,
        expiries = expiries + 1,
        until = (select at from now),
        last_error = $6
    from expired
    where jobs.id = expired.id
    returning jobs.*
),
recorded as (
    insert into job_results (job_id, delivery_id, at, error_code)
    select id, delivery_id, clock(), last_error
    from returned
    where delivery_id is not null and status = 'Failed'
)
/*then*/
select job.id, job.status /*columns*/
from returned as job
    /*joins*/

-- part: owned
-- Active jobs of these owners.
-- $1 owners, $2 subject or all, $3 whether leased ones too, $4 reason.
with picked as (
    select id, $4::text as reason
    from jobs
    where
        saga_id = any ($1::uuid[]) and status in ('Pending', 'Leased')
        and ($2::text is null or subject = $2)
        and ($3::boolean or status = 'Pending' or until <= clock())
    order by id
    for no key update
)

-- part: waiting_jobs
-- Jobs of a partition that no worker has leased.
-- $1 partition, $2 limit, $3 only these, $4 area of parked items, $5 reason.
with picked as (
    select job.id, $5::text as reason
    from jobs as job
    where
        status = 'Pending' and lane = $1
        and job.id <> all (array(select item::bigint from parked_items where area = $4::text and retry_at > clock()))
        and ($3::bigint[] is null or job.id = any ($3))
        /*condition*/
    order by job.id
    limit $2
    for update skip locked
)

-- part: withdraw
-- Ends the jobs in `picked` without a result of a worker.
withdrawn as (
    update jobs
    set status = 'Failed', last_error = picked.reason
    from picked
    where jobs.id = picked.id
    returning jobs.*
),
recorded as (
    insert into job_results (job_id, delivery_id, at, error_code)
    select id, delivery_id, clock(), last_error
    from withdrawn
    where delivery_id is not null
)
/*then*/
select job.id
from withdrawn as job

-- name: withdraw_owned, postgres only
{owned},
{withdraw}

-- name: waiting_in_partition
-- The jobs that `withdraw_waiting` ends.
{waiting_jobs}
select id
from picked

-- name: withdraw_waiting, postgres only
{waiting_jobs},
{withdraw}

-- part: notify_sagas
-- Writes the messages in `message` to the inboxes of their sagas, in the order of the jobs. Sagas are locked in one order, so
-- that no two writers wait for each other.
, woken as materialized (select clock() as at),
numbered as (
    select
        saga_id, at, body, row_number() over (partition by saga_id order by job) as nth,
        count(*) over (partition by saga_id) as among
    from message
),
addressed as (
    select id
    from sagas
    where id in (select saga_id from numbered) and status in ('pending', 'running', 'compensating')
    order by id
    for no key update
),
notified as (
    update sagas
    set inbox_seq = inbox_seq + numbered.among, wake_at = (select at from woken)
    from addressed
        join numbered on numbered.saga_id = addressed.id and numbered.nth = 1
    where sagas.id = addressed.id
    returning
        sagas.id, sagas.inbox_seq - numbered.among as seen, pg_notify(current_schema() || '_inbox', sagas.id::text)::text as notice
),
posted as (
    insert into saga_inbox (at, saga_id, seq, body)
    select numbered.at, notified.id, notified.seen + numbered.nth, numbered.body
    from notified
        join numbered on numbered.saga_id = notified.id
)

-- name: enqueue
-- Jobs of sagas and lifecycles.
insert into jobs (saga_id, queue, subject, payload, until, created_at, alert)
select owner, queue, subject, payload, due_at, $7, alert
from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::text[])
    as j (owner, queue, subject, payload, due_at, alert)

-- name: enqueue_items, postgres only
-- Jobs of items, each in a partition. An item that has an active job gets no other; one without a job is passed on.
-- $1 items, $2 partitions, $3 whether the item gets a job, $4 queue.
with asked as (
    select item, partition_id, case when is_enqueued then nextval('jobs_id_seq') end as id
    from unnest($1::bigint[], $2::bigint[], $3::boolean[]) as a (item, partition_id, is_enqueued)
),
free as materialized (
    select *
    from asked
    where not exists (select from jobs where delivery_id = asked.item and status in ('Pending', 'Leased'))
)
/*then*/
, enqueued as (
    insert into jobs (id, delivery_id, lane, queue, until, created_at)
    select id, item, partition_id, $4, clock(), clock()
    from free
    where id is not null /*condition*/
)
select free.item /*columns*/
from free
    /*joins*/

-- name: lock, postgres only
-- The leases of these jobs, locked until the end of the transaction.
select id, status, token, attempts, expiries, until, last_error
from jobs
where id = any ($1) /*condition*/
order by id
for no key update

-- name: write
-- The lease of a job that the transaction has locked.
update jobs
set status = $2, token = $3, until = $4, attempts = $5, expiries = $6, last_error = coalesce($7, last_error)
where id = $1

-- name: load
select {columns}
from jobs
where id = $1 and saga_id is not null

-- name: consume_results
delete from job_results where job_id = any ($1)

-- name: remove_items
delete from jobs where id = any ($1) and delivery_id is not null
returning id

-- name: remove_owned
delete from jobs where saga_id = any ($1) and status in ('Completed', 'Failed')
returning id

-- name: backlogs
-- How many jobs wait in each of these partitions, counted up to a limit, and since when the oldest does.
select
    found.id::bigint,
    (select count(*) from (select 1 from jobs where status = 'Pending' and lane = found.id::bigint limit $2) as counted),
    (
        select created_at
        from jobs
        where status = 'Pending' and lane = found.id::bigint
        order by id
        limit 1
    )
from json_array_elements_text($1::text::json) with ordinality as found (id, place)
order by found.place

-- name: is_due
-- Whether an owner has a job that is due and not leased.
select id
from jobs
where saga_id = $1 and status in ('Pending', 'Leased') and status = 'Pending' and until <= clock()
limit 1

-- name: lease_holders
-- What outside workers have leased, by partition and by the node that leased it out.
select lane, lease_holder, count(*)
from jobs
where status = 'Leased' and lease_holder is not null
group by lane, lease_holder

-- name: leases
-- These jobs of items, and their leases.
select job.id, job.token, job.status, job.last_error, job.delivery_id, job.lane, job.lease_version
from jobs as job
where job.id in (select id::bigint from json_array_elements_text($1::text::json) as asked (id)) and job.delivery_id is not null

-- name: partitions
-- The partitions in which jobs wait, each found by a single probe of the index, however many wait in it.
with recursive
found (partition_id) as (
    select (
        select lane
        from jobs
        where
            status = 'Pending' and lane is not null and lane > $1
            and id <> all (array(select item::bigint from parked_items where area = $3 and retry_at > clock()))
        order by lane
        limit 1
    )
    union all
    select (
        select lane
        from jobs
        where
            status = 'Pending' and lane is not null and lane > found.partition_id
            and id <> all (array(select item::bigint from parked_items where area = $3 and retry_at > clock()))
        order by lane
        limit 1
    )
    from found
    where found.partition_id is not null
)
select found.partition_id /*columns*/
from (select partition_id from found limit $2) as found
    /*joins*/
where found.partition_id is not null
order by found.partition_id

-- name: queue_state
-- Whether jobs wait or are leased in these queues, and the jobs whose last lease has expired: their product fails them.
select
    exists (select from jobs where queue = any ($1::text[]) and status = 'Pending' and lane is null)
    or exists (select from jobs where queue = any ($1::text[]) and status = 'Leased') as has_jobs,
    null::bigint as lost
union all
select null, id
from (
    select id
    from jobs
    where
        queue = any ($1::text[]) and status = 'Leased' and until <= answers_written_until() and expiries + 1 >= $2::integer
        and id <> all (array(select item::bigint from parked_items where area = $3 and retry_at > clock()))
    order by until
    limit $4
) as found

-- name: results
-- Results of items' jobs that their product has not consumed.
select result.job_id, result.error_code, result.retry_after_ms /*columns*/
from job_results as result
    /*joins*/
where result.job_id <> all (array(select item::bigint from parked_items where area = $2 and retry_at > clock()))
order by result.job_id
limit $1
/*then*/

-- name: waiting_partitions
-- Those of these partitions in which jobs wait.
select found.partition_id /*columns*/
from (select id::bigint as partition_id from json_array_elements_text($1::text::json) as asked (id)) as found
    cross join lateral (
        select
        from jobs
        where
            status = 'Pending' and lane = found.partition_id
            and id <> all (array(select item::bigint from parked_items where area = $2 and retry_at > clock()))
        limit 1
    ) as waiting
    /*joins*/
order by found.partition_id

-- name: queue_depths
-- Jobs by queue: those that wait for a worker, with when the first was due, and those that workers hold a lease for. Deliveries
-- of webhooks have queues of their own. At most 100,000 of each are counted, so that a long queue costs no more.
select queue, count(*) as pending, 0::bigint as leased, (extract(epoch from min(until)) * 1000000)::bigint as due
from (
    select queue, until
    from jobs
    where status = 'Pending' and lane is null
    limit 100000
) as pending
group by queue
union all
select queue, 0::bigint, count(*), null::bigint
from (
    select queue
    from jobs
    where status = 'Leased' and lane is null
    limit 100000
) as leased
group by queue
