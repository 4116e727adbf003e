-- Each lane that is open gives its oldest, up to a number of its own, with what is to be sent; to an outside worker of this
-- node if one is named.
with
open as (
    select w.lane, w.most, w.lease, w.as_of
    from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::timestamptz[]) as w (lane, most, lease, as_of)
        join webhook_subscriptions as p on p.id = w.lane
    where p.disabled_at is null and p.deleted_at is null
),
due as (
    select oldest.id, open.lease, open.as_of
    from open
        cross join lateral (
            select id
            from jobs
            where
                status = 'Pending' and lane = open.lane and until <= clock()
                and id <> all (array(select item::bigint from parked_items where area = 'webhook_jobs' and retry_at > clock()))
                and ($6::bigint[] is null or id = any ($6))
            order by id
            limit open.most
            for update skip locked
        ) as oldest
),
leased as (
    update jobs
    set status = 'Leased',
        token = token + 1,
        until = clock() + due.lease * interval '1 ms',
        handed_out_by = $5,
        handed_out_as = case when $5::text is not null then due.as_of end
    from due
    where jobs.id = due.id
    returning jobs.id, jobs.delivery_id, jobs.lane, jobs.token, jobs.until
)
select
    l.id, l.token, l.until, l.lane, l.delivery_id, s.attempt_count + 1 as attempt, s.webhook_id, s.event_id,
    e.type, e.payload
from leased as l
    join webhook_delivery_sagas as s on s.id = l.delivery_id
    join webhook_events as e on e.id = s.event_id
order by l.id
