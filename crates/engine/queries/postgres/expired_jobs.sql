-- A lease that ran out costs no attempt, but a job that nobody brings back is given up after so many of them.
with
expired as (
    select id
    from jobs
    where status = 'leased' and queue = any ($1) and until <= clock()
    for update skip locked
)
update jobs
set status = case when expiries + 1 >= $2 then 'failed' else 'pending' end,
    expiries = expiries + 1,
    until = clock(),
    last_error = 'lease_expired'
from expired
where jobs.id = expired.id
