insert into audit_answers (audit_id, at, status, what)
values (?1, ?2, ?3, ?4)
