-- Deliveries whose next attempt begins, with its job, or that are given up instead. One that has an active job gets no
-- other.
with
given as (
    select *
    from unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[], $7::text[])
        as g (id, was, newest_job, status, job_id, lane, final_error_code)
),
moved as (
    update webhook_delivery_sagas as s
    set status = g.status::webhook_delivery_status,
        job_id = g.job_id,
        final_error_code = g.final_error_code,
        updated_at = clock()
    from given as g
    where
        s.id = g.id and s.status = g.was::webhook_delivery_status and s.job_id is not distinct from g.newest_job
        and s.next_attempt_at <= clock()
        and not exists (
            select from jobs where delivery_id = s.id and jobs.status in ('Pending', 'Leased')
        )
    returning s.id, g.job_id, g.lane, g.status
),
made as (
    insert into jobs (id, delivery_id, lane, queue, until, created_at)
    select job_id, id, lane, $8, clock(), clock()
    from moved
    where status = 'InProgress'
)
select status
from moved
