-- Until when the chosen subscriptions are paused, and why: the latest pause of a node that sends.
select distinct on (p.subscription_id) p.subscription_id, p.paused_until, p.reason
from webhook_pauses as p
    join webhook_senders as n on n.id = p.node
where
    p.subscription_id in (select id::bigint from json_array_elements_text($1::text::json) as chosen (id))
    and p.paused_until > clock()
    and n.seen_at > clock() - $2::bigint * interval '1 millisecond'
order by p.subscription_id, p.paused_until desc
