-- Paused subscriptions for which deliveries wait: until when, and why. Those paused longest from now come first.
select found.subscription_id, found.paused_until, found.reason
from (
    select distinct on (p.subscription_id) p.subscription_id, p.paused_until, p.reason
    from webhook_pauses as p
        join webhook_senders as n on n.id = p.node
    where
        p.paused_until > clock()
        and n.seen_at > clock() - $2::bigint * interval '1 millisecond'
        and exists (select from jobs as j where j.lane = p.subscription_id and j.status = 'Pending')
    order by p.subscription_id, p.paused_until desc
) as found
order by found.paused_until desc, found.subscription_id
limit $1
