-- The lane of a job, and whether nobody has changed it since the job was handed out.
select
    p.id, p.disabled_at is not null, p.deleted_at is not null, p.url, p.headers, p.timeout_ms, p.max_concurrency,
    p.rate_limit, p.secret, p.previous_secret, p.previous_secret_until, p.updated_at,
    coalesce(p.updated_at = j.handed_out_as, 0)
from jobs as j
    join webhook_subscriptions as p on p.id = j.lane
where j.id = ?1 and j.delivery_id is not null
