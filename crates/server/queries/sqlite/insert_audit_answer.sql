insert into audit_answers (audit_id, at, status)
values (?1, ?2, ?3)
