-- What nobody has of a deleted subscription's jobs is given up.
with
waiting as (
    select jobs.id
    from jobs
    where
        status = 'Pending' and lane = $1
        and jobs.id <> all (array(select item::bigint from parked_items where area = 'webhook_jobs' and retry_at > clock()))
        and ($6::bigint[] is null or jobs.id = any ($6))
        and exists (select from webhook_subscriptions where id = $1 and deleted_at is not null)
    order by jobs.id
    limit $2
    for update skip locked
),
closed as (
    update jobs
    set status = 'Failed', last_error = $3
    from waiting
    where jobs.id = waiting.id
    returning jobs.id, jobs.delivery_id, jobs.expiries
),
told as (
    insert into job_results (job_id, delivery_id, at, error_code)
    select id, delivery_id, clock(), $3
    from closed
),
recorded as (
    insert into webhook_attempts (saga_id, job_id, finished_at, number, status, error_code, error)
    select
        s.id, closed.id, clock(), s.attempt_count + 1, 'Failed', $3,
        case when closed.expiries = 0 then $4 else $5 end
    from closed
        join webhook_delivery_sagas as s on s.id = closed.delivery_id
)
select id
from closed
