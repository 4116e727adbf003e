-- The lanes in which jobs wait, each found by a single probe of the index, however many wait in it.
with recursive
found (lane) as (
    select (
        select lane
        from jobs
        where
            status = 'Pending' and lane is not null and lane > ?1
            and id not in (select cast(item as integer) from parked_items where area = 'webhook_jobs' and retry_at > ?3)
        order by lane
        limit 1
    )
    union all
    select (
        select lane
        from jobs
        where
            status = 'Pending' and lane is not null and lane > found.lane
            and id not in (select cast(item as integer) from parked_items where area = 'webhook_jobs' and retry_at > ?3)
        order by lane
        limit 1
    )
    from found
    where found.lane is not null
    limit ?2
)
select
    p.id, p.disabled_at is not null, p.deleted_at is not null, p.url, p.headers, p.timeout_ms, p.max_concurrency,
    p.rate_limit, p.secret, p.previous_secret, p.previous_secret_until, p.updated_at
from found
    cross join webhook_subscriptions as p on p.id = found.lane
order by p.id
