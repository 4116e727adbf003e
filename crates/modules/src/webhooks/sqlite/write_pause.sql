-- A deleted subscription has no pauses.
insert into webhook_pauses (subscription_id, node, paused_until, reason)
select id, ?2, ?3, ?4
from webhook_subscriptions
where id = ?1 and deleted_at is null
on conflict (subscription_id, node) do update set paused_until = excluded.paused_until, reason = excluded.reason
