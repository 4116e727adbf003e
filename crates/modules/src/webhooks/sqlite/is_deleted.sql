select 1
from webhook_subscriptions
where id = ?1 and deleted_at is not null
