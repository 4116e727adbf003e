-- The lanes of deleted subscriptions in which jobs wait, each lane found by a single probe of the index.
with recursive
found (lane) as (
    select min(lane) from jobs where status = 'Pending' and lane is not null
    union all
    select (select min(lane) from jobs where status = 'Pending' and lane is not null and lane > found.lane)
    from found
    where found.lane is not null
)
select p.id
from found
    cross join webhook_subscriptions as p on p.id = found.lane
where p.deleted_at is not null
