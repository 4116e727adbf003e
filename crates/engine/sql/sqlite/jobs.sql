-- Jobs: the lease queue. Marks such as `/*condition*/` are where a product extends a statement (`jobs::Extension`).

-- part: columns
id, saga_id, queue, subject, payload, status, token, until, attempts, expiries, last_error

-- part: item_columns
id, delivery_id, lane, status, token, until, attempts, expiries, last_error

-- name: due_in_queue, sqlite only
-- The oldest due jobs of a queue. A paused saga starts nothing: its jobs are not leased.
select {columns}
from jobs
where
    status = 'Pending' and lane is null and queue = ?1 and until <= ?2
    and id not in (select cast(item as integer) from parked_items where area = 'jobs' and retry_at > ?2)
    and (
        substr(?1, 1, 5) <> 'work/'
        or not exists (
            select 1
            from sagas
            where sagas.id = jobs.saga_id and sagas.paused and sagas.status in ('pending', 'running', 'compensating')
        )
    )
order by until, id
limit ?3

-- name: expired_in_queue, sqlite only
-- Jobs of sagas and lifecycles whose lease has expired.
select {columns}
from jobs
where
    status = 'Leased' and queue = ?1 and until <= ?2
    and id not in (select cast(item as integer) from parked_items where area = 'jobs' and retry_at > ?2)

-- name: due_in_partition, sqlite only
-- The oldest due jobs of a partition.
select {item_columns}
from jobs indexed by jobs_due_in_lane
where
    status = 'Pending' and lane = ?1 and until <= ?2
    and id not in (select cast(item as integer) from parked_items where area = ?4 and retry_at > ?2)
order by id
limit ?3

-- name: expired_items, sqlite only
-- Jobs of items whose lease has expired.
select {item_columns}
from jobs as job indexed by jobs_leased
where
    status = 'Leased' and queue = ?1 and until <= ?2 and delivery_id is not null
    and id not in (select cast(item as integer) from parked_items where area = ?4 and retry_at > ?2)
    /*condition*/
order by until
limit ?3

-- name: waiting_in_partition
-- Jobs of a partition that no worker has leased.
select {item_columns}
from jobs indexed by jobs_due_in_lane
where
    status = 'Pending' and lane = ?1
    and id not in (select cast(item as integer) from parked_items where area = ?4 and retry_at > ?3)
order by id
limit ?2

-- name: load_item, sqlite only
select {item_columns}
from jobs
where id = ?1 and delivery_id is not null

-- name: load
select {columns}
from jobs
where id = ?1 and saga_id is not null

-- name: lease_of, sqlite only
select status, token, until, attempts, expiries
from jobs
where id = ?1 and saga_id is not null

-- name: enqueue
-- Rejected where the owner has an active job for the subject.
insert or fail into jobs (saga_id, queue, subject, payload, until, created_at, alert)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7)

-- name: lease, sqlite only
update or fail jobs
set status = ?2, token = ?3, until = ?4, lease_holder = ?5, lease_version = ?6
where id = ?1

-- name: write
update or fail jobs
set status = ?2, token = ?3, until = ?4, attempts = ?5, expiries = ?6, last_error = coalesce(?7, last_error)
where id = ?1

-- name: withdraw_unleased, sqlite only
-- A job that no worker has leased, or whose lease has expired by a time. The status is named twice: the index of active jobs holds
-- both.
update or fail jobs
set status = 'Failed', last_error = ?3
where
    saga_id = ?1 and subject = ?2 and status in ('Pending', 'Leased')
    and (status = 'Pending' or until <= ?4)
returning token

-- name: withdraw_all, sqlite only
update or fail jobs
set status = 'Failed', last_error = ?2
where saga_id = ?1 and status in ('Pending', 'Leased')

-- name: set_aside, sqlite only
-- Leases to no worker a job of a product that cannot be read.
update or fail jobs
set status = 'Leased', token = token + 1, until = ?2
where id = ?1

-- name: return_unread, sqlite only
update or fail jobs
set status = 'Pending', expiries = expiries + 1, until = ?2, last_error = ?3
where id = ?1 and expiries + 1 < ?4

-- name: fail_unread, sqlite only
update or fail jobs
set status = 'Failed', token = token + 1, attempts = attempts + 1, last_error = ?2
where id = ?1

-- name: alert_of_failure, sqlite only
-- In the transaction that fails the job.
insert into outbox (topic, idempotency_key, payload, due_at, created_at, updated_at)
select ?2, 'job:' || id, json_set(alert, '$.error', last_error), ?3, ?3, ?3
from jobs
where id = ?1
    and alert is not null
    and not exists (
        select 1
        from outbox
        where topic = ?2 and idempotency_key = 'job:' || jobs.id and retry_of is null
    )

-- name: has_active_subject, sqlite only
select 1
from jobs
where saga_id = ?1 and subject = ?2 and status in ('Pending', 'Leased')

-- name: has_active_item, sqlite only
select 1
from jobs
where delivery_id = ?1 and status in ('Pending', 'Leased')

-- name: newest_id, sqlite only
select coalesce(max(seq), 0) as id
from sqlite_sequence
where name = 'jobs'

-- name: record_result, sqlite only
insert or fail into job_results (job_id, delivery_id, at, retry_after_ms, error_code)
values (?1, ?2, ?3, ?4, ?5)

-- name: consume_results
delete from job_results where job_id = ?1

-- name: remove_items
delete from jobs where id = ?1 and delivery_id is not null

-- name: remove_owned
delete from jobs where saga_id = ?1 and status in ('Completed', 'Failed')

-- name: backlogs
-- How many jobs wait in each of these partitions, counted up to a limit, and since when the oldest does.
select
    found.value,
    (
        select count(*)
        from (
            select 1
            from jobs indexed by jobs_due_in_lane
            where status = 'Pending' and lane = found.value
            limit ?2
        ) as counted
    ),
    (
        select created_at
        from jobs indexed by jobs_due_in_lane
        where status = 'Pending' and lane = found.value
        order by id
        limit 1
    )
from json_each(?1) as found
order by found.key

-- name: is_due
-- Whether an owner has a job that is due and not leased.
select id
from jobs
where saga_id = ?1 and status in ('Pending', 'Leased') and status = 'Pending' and until <= ?2
limit 1

-- name: lease_holders
-- What outside workers have leased, by partition and by the node that leased it out.
select lane, lease_holder, count(*)
from jobs indexed by jobs_held
where status = 'Leased' and lease_holder is not null
group by lane, lease_holder

-- name: leases
-- These jobs of items, and their leases.
select job.id, job.token, job.status, job.last_error, job.delivery_id, job.lane, job.lease_version
from jobs as job
where job.id in (select value from json_each(?1)) and job.delivery_id is not null

-- name: partitions
-- The partitions in which jobs wait, each found by a single probe of the index, however many wait in it.
with recursive
found (partition_id) as (
    select (
        select lane
        from jobs
        where
            status = 'Pending' and lane is not null and lane > ?1
            and id not in (select cast(item as integer) from parked_items where area = ?3 and retry_at > ?4)
        order by lane
        limit 1
    )
    union all
    select (
        select lane
        from jobs
        where
            status = 'Pending' and lane is not null and lane > found.partition_id
            and id not in (select cast(item as integer) from parked_items where area = ?3 and retry_at > ?4)
        order by lane
        limit 1
    )
    from found
    where found.partition_id is not null
    limit ?2
)
select found.partition_id /*columns*/
from found
    /*joins*/
where found.partition_id is not null
order by found.partition_id

-- name: queue_state
-- Whether jobs wait or are leased in these queues, and the jobs whose last lease has expired: their product fails them.
select
    exists (select 1 from jobs where queue in (select value from json_each(?1)) and status = 'Pending' and lane is null)
    or exists (select 1 from jobs where queue in (select value from json_each(?1)) and status = 'Leased') as has_jobs,
    null as lost
union all
select null, id
from (
    select id
    from jobs
    where
        queue in (select value from json_each(?1)) and status = 'Leased' and until <= ?4 and expiries + 1 >= ?2
        and id not in (select cast(item as integer) from parked_items where area = ?3 and retry_at > ?4)
    order by until
    limit ?5
) as found

-- name: results
-- Results of items' jobs that their product has not consumed.
select result.job_id, result.error_code, result.retry_after_ms /*columns*/
from job_results as result
    /*joins*/
where result.job_id not in (select cast(item as integer) from parked_items where area = ?2 and retry_at > ?3)
order by result.job_id
limit ?1
/*then*/

-- name: waiting_partitions
-- Those of these partitions in which jobs wait.
select found.partition_id /*columns*/
from (select value as partition_id from json_each(?1)) as found
    /*joins*/
where exists (
    select 1
    from jobs indexed by jobs_due_in_lane
    where
        status = 'Pending' and lane = found.partition_id
        and id not in (select cast(item as integer) from parked_items where area = ?2 and retry_at > ?3)
)
order by found.partition_id

-- name: queue_depths
-- Jobs by queue: those that wait for a worker, with when the first was due, and those that workers hold a lease for. Deliveries
-- of webhooks have queues of their own. At most 100,000 of each are counted, so that a long queue costs no more.
select queue, count(*) as pending, 0 as leased, min(until) as due
from (
    select queue, until
    from jobs
    where status = 'Pending' and lane is null
    limit 100000
) as pending
group by queue
union all
select queue, 0, count(*), null
from (
    select queue
    from jobs
    where status = 'Leased' and lane is null
    limit 100000
) as leased
group by queue
