-- A lease that goes on for so long, or is given back at no cost. Answers with the job as it was before, and until when it
-- is taken now.
with
found as (
    select id, status, token, attempts, expiries, until, last_error
    from jobs
    where id = $1 and delivery_id is not null
    for no key update
),
kept as (
    update jobs
    set status = $3, until = clock() + $4::bigint * interval '1 ms'
    from found
    where jobs.id = found.id and found.status = 'Leased' and found.token = $2
    returning jobs.until
)
select found.*, kept.until as now_until
from found
    left join kept on true
