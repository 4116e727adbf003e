-- Guards of live rows and of names, for every program.

-- A live row decides what happens next, and its log must say the same. Only connections that Backstitch has opened have
-- this function, which costs less than a lookup in the log.
create trigger lifecycles_refuse_other_programs before update on lifecycles
when not only_backstitch_changes_lifecycles()
begin
    select raise(fail, 'only Backstitch changes lifecycles');
end;

create trigger lifecycle_declared_refuse_new_name before update of name on lifecycle_declared
begin
    select raise(abort, 'the name of a machine never changes: declare a new one');
end;

create trigger lifecycle_declared_refuse_delete before delete on lifecycle_declared
begin
    select raise(abort, 'a machine is never deleted: its lifecycles and logs refer to it');
end;
