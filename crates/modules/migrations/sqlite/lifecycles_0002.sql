-- Guards of stored history that hold for every program: `INSERT OR REPLACE` fires no delete trigger, so a key that exists
-- is refused.

create trigger lifecycle_machines_refuse_replace before insert on lifecycle_machines
when exists (select 1 from lifecycle_machines where name = new.name and version = new.version)
begin
    select raise(abort, 'the machine has this version: declare a new version');
end;

create trigger lifecycle_machines_refuse_delete before delete on lifecycle_machines
begin
    select raise(abort, 'a version of a machine is never deleted: lifecycles and logs refer to it');
end;

create trigger lifecycle_states_refuse_replace before insert on lifecycle_states
when exists (
    select 1
    from lifecycle_states
    where machine = new.machine and version = new.version and state = new.state
)
begin
    select raise(abort, 'a version of a machine never changes: declare a new version');
end;

create trigger lifecycle_states_refuse_delete before delete on lifecycle_states
begin
    select raise(abort, 'a version of a machine is never deleted: lifecycles and logs refer to it');
end;

create trigger lifecycles_refuse_replace before insert on lifecycles
when exists (select 1 from lifecycles where id = new.id)
    or exists (select 1 from lifecycles where machine = new.machine and key = new.key)
begin
    select raise(fail, 'the lifecycle exists: a lifecycle is never replaced');
end;

create trigger lifecycle_dead_letters_refuse_replace before insert on lifecycle_dead_letters
when exists (select 1 from lifecycle_dead_letters where id = new.id)
    or exists (select 1 from lifecycle_dead_letters where mark = new.mark)
begin
    select raise(abort, 'the dead letter exists: a dead letter is never replaced');
end;

create trigger lifecycle_dead_letters_refuse_update before update on lifecycle_dead_letters
begin
    select raise(abort, 'a dead letter is kept as it came: it never changes');
end;
