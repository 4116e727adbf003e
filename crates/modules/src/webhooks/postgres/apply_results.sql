-- What the deliveries become.
update webhook_delivery_sagas as s
set status = g.status::webhook_delivery_status,
    attempt_count = g.attempt_count,
    next_attempt_at = g.next_attempt_at,
    final_error_code = g.final_error_code,
    updated_at = clock()
from unnest($1::bigint[], $2::bigint[], $3::text[], $4::integer[], $5::timestamptz[], $6::text[])
    as g (id, job_id, status, attempt_count, next_attempt_at, final_error_code)
where s.id = g.id and s.status = 'InProgress' and s.job_id = g.job_id
returning g.status
