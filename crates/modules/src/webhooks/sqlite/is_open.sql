select 1
from webhook_subscriptions
where id = ?1 and disabled_at is null and deleted_at is null
