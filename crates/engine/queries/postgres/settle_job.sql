-- Answers with each job as it was before, from which follows whether the report counted. A report that says how long
-- the job is still taken is no result, and costs no attempt.
with
report as (
    select *
    from unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::text[])
        as r (id, token, status, retry_us, lease_ms, error)
),
found as (
    select id, status, token
    from jobs
    where id = any ($1)
    order by id
    for no key update
),
settled as (
    update jobs
    set status = r.status,
        until = coalesce(clock() + r.retry_us * interval '1 us', clock() + r.lease_ms * interval '1 ms', until),
        attempts = attempts + case when r.lease_ms is null then 1 else 0 end,
        last_error = coalesce(r.error, last_error)
    from report r
        join found f using (id)
    where jobs.id = r.id and f.status = 'Leased' and f.token = r.token
)
select id, status, token
from found
