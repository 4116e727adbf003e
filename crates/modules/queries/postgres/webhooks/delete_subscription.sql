-- It stays as a row: its deliveries refer to it, and end by it.
update webhook_subscriptions
set deleted_at = $2, updated_at = $2
where id = $1 and deleted_at is null
returning id
