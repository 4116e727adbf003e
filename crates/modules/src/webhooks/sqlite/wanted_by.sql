select subscription_id
from webhook_subscription_types
where pattern = ?1
