-- Jobs of sagas and lifecycles.
insert into jobs (saga_id, queue, subject, payload, until, created_at, alert)
select owner, queue, subject, payload, due_at, $7, alert
from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::text[])
    as j (owner, queue, subject, payload, due_at, alert)
