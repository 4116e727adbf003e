-- Deliveries whose next attempt is due, locked.
select
    clock() as now, s.*,
    p.max_retry_limit, p.base_delay_ms, p.max_delay_ms, p.deleted_at is not null as is_deleted
from (
    select
        id, subscription_id as lane, status::text as status, attempt_count, next_attempt_at, job_id as newest_job,
        final_error_code
    from webhook_delivery_sagas as d
    -- A range of both columns, in an order that only their index has: with stale statistics the planner would otherwise read
    -- all deliveries of a status that it takes for a rare one, and sort them.
    where
        (d.status, d.next_attempt_at) <= ($1::text::webhook_delivery_status, clock())
        and d.status >= $1::text::webhook_delivery_status
        and d.id <> all (array(select item::bigint from parked_items where area = 'webhook_deliveries' and retry_at > clock()))
    order by d.status, d.next_attempt_at
    limit $2
    for update skip locked
) as s
    join webhook_subscriptions as p on p.id = s.lane
