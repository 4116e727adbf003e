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
