-- One that will be too old by the time of its next send is looked at as soon as it is.
update or fail outbox
set status = ?3, attempts = attempts + ?4, due_at = min(?5, coalesce(max(expires_at, ?8), ?5)),
    last_error_code = coalesce(?6, last_error_code),
    last_error_msg = coalesce(?7, last_error_msg), locked_by = null, locked_at = null, updated_at = ?8
where id = ?1 and lock = ?2 and status = 'sending'
returning topic, idempotency_key, ordering_key, coalesce(ordering_scope, topic) as ordering_scope
