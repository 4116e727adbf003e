-- Whether jobs wait or are leased in these queues, and the jobs whose last lease has expired: their product fails them.
select
    exists (select from jobs where queue = any ($1::text[]) and status = 'Pending' and lane is null)
    or exists (select from jobs where queue = any ($1::text[]) and status = 'Leased') as has_jobs,
    null::bigint as lost
union all
select null, id
from (
    select id
    from jobs
    where
        queue = any ($1::text[]) and status = 'Leased' and until <= clock() and expiries + 1 >= $2::integer
        and id <> all (array(select item::bigint from parked_items where area = $3 and retry_at > clock()))
    order by until
    limit $4
) as found
