-- Of the chosen deliveries those of a paused subscription: until when, why, and the newest job. One that is not due before the pause
-- ends does not wait for it. The delivery whose `Retry-After` began the pause is due about when it ends.
-- The deliveries are found first: a server that took a paused subscription for a rare one would go through all of its deliveries.
with chosen as materialized (
    select s.id, s.subscription_id, s.job_id, s.status, s.next_attempt_at
    from webhook_delivery_sagas as s
    where s.id in (select id::bigint from json_array_elements_text($1::text::json) as asked (id))
)
select distinct on (s.id) s.id, p.paused_until, p.reason, s.job_id
from chosen as s
    join webhook_pauses as p on p.subscription_id = s.subscription_id
    join webhook_senders as n on n.id = p.node
where
    s.status in ('Pending', 'InProgress', 'PendingRetry')
    and p.paused_until > clock()
    and s.next_attempt_at <= p.paused_until + interval '1 second'
    and n.seen_at > clock() - $2::bigint * interval '1 millisecond'
order by s.id, p.paused_until desc
