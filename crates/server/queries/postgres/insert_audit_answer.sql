insert into audit_answers (audit_id, at, status, what)
values ($1, timestamptz 'epoch' + $2::bigint * interval '1 microsecond', $3, $4)
