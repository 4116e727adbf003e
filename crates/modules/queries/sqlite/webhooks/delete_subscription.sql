-- It stays as a row: its deliveries refer to it, and end by it. Nothing is sent to it any more, so what is secret goes.
update webhook_subscriptions
set
    deleted_at = ?2, updated_at = max(?2, updated_at + 1), secret = x'', previous_secret = null,
    previous_secret_until = null, headers = '[]'
where id = ?1 and deleted_at is null
returning id
