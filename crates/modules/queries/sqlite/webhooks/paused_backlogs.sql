-- Paused subscriptions for which deliveries wait: until when, and why. Those paused longest from now come first.
select p.subscription_id, max(p.paused_until) as paused_until, p.reason
from webhook_pauses as p
where
    p.paused_until > ?2
    and exists (select 1 from jobs as j where j.lane = p.subscription_id and j.status = 'Pending')
group by p.subscription_id
order by paused_until desc, p.subscription_id
limit ?1
