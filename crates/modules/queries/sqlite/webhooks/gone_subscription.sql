-- Only if it still leads where the answer came from.
update webhook_subscriptions
set disabled_at = ?2, disabled_reason = ?3, updated_at = max(?2, updated_at + 1)
where id = ?1 and url = ?4 and deleted_at is null and disabled_at is null
returning id
