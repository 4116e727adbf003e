update outbox
set status = ?3, attempts = attempts + 1, due_at = coalesce(?4, due_at), last_error = coalesce(?5, last_error)
where id = ?1 and lock = ?2 and status = 'sending'
