update outbox
set status = ?3, attempts = attempts + ?4, due_at = ?5, last_error_code = coalesce(?6, last_error_code),
    last_error_msg = coalesce(?7, last_error_msg), locked_by = null, locked_at = null, updated_at = ?8
where id = ?1 and lock = ?2 and status = 'sending'
returning topic, idempotency_key, ordering_key
