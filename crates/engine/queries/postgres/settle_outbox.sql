update outbox
set status = s.status,
    attempts = attempts + 1,
    due_at = coalesce(s.due_at, outbox.due_at),
    last_error = coalesce(s.error, last_error)
from unnest($1::bigint[], $2::bigint[], $3::text[], $4::timestamptz[], $5::text[])
    as s (id, lock, status, due_at, error)
where outbox.id = s.id and outbox.lock = s.lock and outbox.status = 'sending'
