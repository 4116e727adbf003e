-- What people asked this server to change, and what they were answered. Neither is ever changed or removed.

create table $schema.audit (
    id       bigint generated always as identity primary key,
    at       timestamptz not null,
    key_id   bigint,
    key_name text,
    role     text        not null,
    peer     text,
    method   text        not null,
    path     text        not null,
    subject  text
);

create table $schema.audit_answers (
    audit_id bigint      not null primary key references $schema.audit,
    at       timestamptz not null,
    status   integer     not null
);

create function $schema.audit_is_append_only() returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'the audit is append-only'
        using errcode = 'restrict_violation', table = tg_table_name;
end;
$$;

create trigger audit_never_changes
    before update or delete or truncate on $schema.audit
    for each statement
    execute function $schema.audit_is_append_only();

create trigger audit_answers_never_change
    before update or delete or truncate on $schema.audit_answers
    for each statement
    execute function $schema.audit_is_append_only();
