-- What the deliveries become, and the results are consumed with it. Those that changed nothing are consumed too.
with
given as (
    select *
    from unnest($1::bigint[], $2::bigint[], $3::text[], $4::integer[], $5::timestamptz[], $6::text[])
        as g (id, job_id, status, attempt_count, next_attempt_at, final_error_code)
),
consumed as (
    delete from job_results
    where job_id = any ($7)
)
update webhook_delivery_sagas as s
set status = g.status::webhook_delivery_status,
    attempt_count = g.attempt_count,
    next_attempt_at = g.next_attempt_at,
    final_error_code = g.final_error_code,
    updated_at = clock()
from given as g
where s.id = g.id and s.status = 'InProgress' and s.job_id = g.job_id
returning g.status
