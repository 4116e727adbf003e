-- Until when the chosen subscriptions are paused, and why: the latest pause.
select p.subscription_id, max(p.paused_until), p.reason
from webhook_pauses as p
where p.subscription_id in (select value from json_each(?1)) and p.paused_until > ?2
group by p.subscription_id
