-- What people asked this server to change, and what they were answered. Neither is ever changed or removed.

create table audit (
    id       integer primary key autoincrement,
    at       integer not null,
    key_id   integer,
    key_name text,
    role     text    not null,
    peer     text,
    method   text    not null,
    path     text    not null,
    subject  text
) strict;

create table audit_answers (
    audit_id integer not null primary key references audit,
    at       integer not null,
    status   integer not null
) strict;

create trigger audit_never_changes before update on audit
begin
    select raise(abort, 'the audit is append-only');
end;

create trigger audit_never_shrinks before delete on audit
begin
    select raise(abort, 'the audit is append-only');
end;

create trigger audit_answers_never_change before update on audit_answers
begin
    select raise(abort, 'the audit is append-only');
end;

create trigger audit_answers_never_shrink before delete on audit_answers
begin
    select raise(abort, 'the audit is append-only');
end;
