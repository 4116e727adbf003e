update outbox
set status = 'aborted', last_error_code = ?2, last_error_msg = ?3, due_at = null, updated_at = ?1
where id in (
    select id
    from outbox
    where
        expires_at is not null and status in ('pending', 'failed') and expires_at <= ?1
        and id not in (select cast(item as integer) from parked_items where area = 'outbox' and retry_at > ?1)
        and (?5 is null or id = ?5)
    order by expires_at
    limit ?4
)
returning
    topic, idempotency_key, ordering_key, coalesce(ordering_scope, topic) as ordering_scope, attempts,
    lock = 0 and not counted as uncounted
