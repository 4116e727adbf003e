-- Disabled subscriptions behind this one.
select id, disabled_at, disabled_reason
from webhook_subscriptions
where disabled_at is not null and deleted_at is null and id > ?1
order by id
limit ?2
