-- Those of the chosen lanes in which jobs wait.
select
    p.id, p.disabled_at is not null, p.deleted_at is not null, p.url, p.headers, p.timeout_ms, p.max_concurrency,
    p.rate_limit, p.secret, p.previous_secret, p.previous_secret_until, p.updated_at
from webhook_subscriptions as p
where
    p.id in (select value from json_each(?1))
    and exists (
        select 1
        from jobs indexed by jobs_due_in_lane
        where
            status = 'Pending' and lane = p.id
            and id not in (select cast(item as integer) from parked_items where area = 'webhook_jobs' and retry_at > ?2)
    )
order by p.id
