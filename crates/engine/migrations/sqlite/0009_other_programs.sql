-- What other programs may write: guards of `declared`, and the times of a message that is inserted without them.

create trigger declared_refuse_new_name before update of name on declared
begin
    select raise(abort, 'the name of a definition never changes: declare a new one');
end;

create trigger declared_refuse_delete before delete on declared
begin
    select raise(abort, 'a definition is never deleted: its sagas and logs refer to it');
end;

-- As SQLite 3.40 can tell the time. SQLite cannot add a default otherwise; rebuilding the table would drop the triggers of
-- others.
pragma writable_schema = on;

update sqlite_schema
set sql = replace(replace(
    sql,
    'created_at      integer not null',
    'created_at      integer not null default (cast(round((julianday(''now'') - 2440587.5) * 86400000.0) as integer) * 1000)'),
    'updated_at      integer not null',
    'updated_at      integer not null default (cast(round((julianday(''now'') - 2440587.5) * 86400000.0) as integer) * 1000)')
where type = 'table' and name = 'outbox';

pragma writable_schema = reset;

-- Any other change of the schema makes open connections read it again.
drop trigger outbox_due_by_default;
create trigger outbox_due_by_default after insert on outbox
when new.due_at is null and new.status = 'pending'
begin
    update outbox set due_at = new.created_at where id = new.id;
end;
