-- Those of the chosen lanes in which jobs wait.
select
    p.id, p.disabled_at is not null, p.deleted_at is not null, p.url, p.headers, p.timeout_ms, p.max_concurrency,
    p.rate_limit, p.secret, p.previous_secret, p.previous_secret_until, p.updated_at
from json_array_elements_text($1::text::json) as chosen (id)
    join webhook_subscriptions as p on p.id = chosen.id::bigint
    cross join lateral (
        select
        from jobs
        where
            status = 'Pending' and lane = p.id
            and id <> all (array(select item::bigint from parked_items where area = 'webhook_jobs' and retry_at > clock()))
        limit 1
    ) as waiting
order by p.id
