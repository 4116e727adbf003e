-- Reports of workers: the job is over, what came of it waits for the orchestrator, and the attempt is on record, or none
-- of it. Answers with each job as it was before, from which follows whether its report counted.
with
report as (
    select *
    from unnest(
        $1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::integer[], $6::text[], $7::text[], $8::bigint[],
        $9::timestamptz[], $10::text[], $11::text[]
    ) as r (
        id, token, error_code, retry_after_ms, response_code, body, error, duration_ms, started_at, url, headers
    )
),
found as (
    select id, delivery_id, status, token, attempts, expiries, until, last_error
    from jobs
    where id = any ($1) and delivery_id is not null
    order by id
    for no key update
),
settled as (
    update jobs
    set status = case when r.error_code is null then 'Completed' else 'Failed' end,
        attempts = jobs.attempts + 1,
        last_error = coalesce(r.error_code, jobs.last_error)
    from report as r
        join found as f using (id)
    where jobs.id = r.id and f.status = 'Leased' and f.token = r.token
    returning
        jobs.id, jobs.delivery_id, jobs.status, r.error_code, r.retry_after_ms, r.response_code, r.body, r.error,
        r.duration_ms, r.started_at, r.url, r.headers
),
told as (
    insert into job_results (job_id, delivery_id, at, retry_after_ms, error_code)
    select id, delivery_id, clock(), retry_after_ms, error_code
    from settled
),
recorded as (
    insert into webhook_attempts (
        saga_id, job_id, started_at, finished_at, duration_ms, number, response_code, status, error_code, error, body,
        url, headers
    )
    select
        r.delivery_id, r.id, r.started_at, clock(), r.duration_ms, s.attempt_count + 1, r.response_code, r.status,
        r.error_code, r.error, r.body, r.url, r.headers
    from settled as r
        join webhook_delivery_sagas as s on s.id = r.delivery_id
)
select id, status, token, attempts, expiries, until, last_error
from found
