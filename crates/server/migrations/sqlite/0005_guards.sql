-- Guards of stored history that hold for every program: `INSERT OR REPLACE` fires no delete trigger, so a key that exists
-- is refused. A trigger `update of id` does not see an update of `rowid`, so the ids are compared.

create trigger api_keys_refuse_replace before insert on api_keys
when exists (select 1 from api_keys where id = new.id)
    or exists (select 1 from api_keys where hash = new.hash)
begin
    select raise(abort, 'the key exists: a key is never replaced');
end;

create trigger api_keys_refuse_new_id before update on api_keys
when new.id <> old.id
begin
    select raise(abort, 'the id of a key never changes');
end;

create trigger api_keys_refuse_new_origin
before update of hash, role, name, last_four, created_at, expires_at on api_keys
begin
    select raise(abort, 'a key never changes: revoke it and create a new one');
end;

create trigger api_keys_refuse_delete before delete on api_keys
begin
    select raise(abort, 'the audit refers to the key: revoke it instead');
end;

create trigger audit_refuse_replace before insert on audit
when exists (select 1 from audit where id = new.id)
begin
    select raise(abort, 'the audit is append-only');
end;

create trigger audit_answers_refuse_replace before insert on audit_answers
when exists (select 1 from audit_answers where audit_id = new.audit_id)
begin
    select raise(abort, 'the audit is append-only');
end;
