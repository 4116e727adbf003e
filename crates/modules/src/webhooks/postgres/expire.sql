-- A lease that ran out costs no attempt, but a job that nobody brings back is failed after so many of them.
with
expired as (
    select id
    from jobs
    where
        status = 'Leased' and queue = $1 and until <= answers_written_until()
        and id <> all (array(select item::bigint from parked_items where area = 'webhook_jobs' and retry_at > clock()))
        and not exists (select from webhook_rejected_reports where job_id = jobs.id)
        and ($5::bigint[] is null or id = any ($5))
    order by until
    limit $2
    for update skip locked
),
put_back as (
    update jobs
    set status = case when expiries + 1 >= $3 then 'Failed' else 'Pending' end,
        expiries = expiries + 1,
        until = clock(),
        last_error = $4
    from expired
    where jobs.id = expired.id
    returning jobs.id, jobs.delivery_id, jobs.status
),
told as (
    insert into job_results (job_id, delivery_id, at, error_code)
    select id, delivery_id, clock(), $4
    from put_back
    where status = 'Failed'
),
recorded as (
    insert into webhook_attempts (saga_id, job_id, finished_at, number, status, error_code)
    select s.id, put_back.id, clock(), s.attempt_count + 1, 'Failed', $4
    from put_back
        join webhook_delivery_sagas as s on s.id = put_back.delivery_id
    where put_back.status = 'Failed'
)
select status
from put_back
