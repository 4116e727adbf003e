update or fail outbox
set status = case when attempts = 0 then 'pending' else 'failed' end, due_at = ?3, locked_by = null, locked_at = null,
    updated_at = ?3
where id = ?1 and lock = ?2 and status = 'sending'
