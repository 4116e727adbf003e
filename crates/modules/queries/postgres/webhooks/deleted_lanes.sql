-- The lanes of deleted subscriptions in which jobs wait, each lane found by a single probe of the index.
with recursive
found as (
    (select lane from jobs where status = 'Pending' and lane is not null order by lane limit 1)
    union all
    select (
        select lane
        from jobs
        where status = 'Pending' and lane is not null and lane > found.lane
        order by lane
        limit 1
    )
    from found
    where found.lane is not null
)
select p.id
from found
    join webhook_subscriptions as p on p.id = found.lane
where p.deleted_at is not null
