-- Whether jobs wait or are leased in these queues, and the jobs whose last lease has expired: their product fails them.
select
    exists (select 1 from jobs where queue in (select value from json_each(?1)) and status = 'Pending' and lane is null)
    or exists (select 1 from jobs where queue in (select value from json_each(?1)) and status = 'Leased') as has_jobs,
    null as lost
union all
select null, id
from (
    select id
    from jobs
    where
        queue in (select value from json_each(?1)) and status = 'Leased' and until <= ?4 and expiries + 1 >= ?2
        and id not in (select cast(item as integer) from parked_items where area = ?3 and retry_at > ?4)
    order by until
    limit ?5
) as found
