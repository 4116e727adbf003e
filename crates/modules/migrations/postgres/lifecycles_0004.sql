-- Guards of names, for every program. Live rows of `lifecycles` are kept from other programs by their privileges here.

create trigger lifecycle_declared_refuse_new_name
    before update of name on lifecycle_declared
    for each row
    execute function refuse('the name of a machine never changes: declare a new one');

create trigger lifecycle_declared_refuse_delete
    before delete or truncate on lifecycle_declared
    for each statement
    execute function refuse('a machine is never deleted: its lifecycles and logs refer to it');
