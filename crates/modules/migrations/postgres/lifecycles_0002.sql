-- Guards of stored history that hold for every program.

create trigger lifecycle_machines_refuse_delete
    before delete or truncate on lifecycle_machines
    for each statement
    execute function refuse('a version of a machine is never deleted: lifecycles and logs refer to it');

create trigger lifecycle_states_refuse_delete
    before delete or truncate on lifecycle_states
    for each statement
    execute function refuse('a version of a machine is never deleted: lifecycles and logs refer to it');

create trigger lifecycles_refuse_truncate
    before truncate on lifecycles
    for each statement
    execute function refuse('lifecycles are never truncated: delete those that ended, or let retention do it');

create trigger lifecycle_dead_letters_refuse_update
    before update or truncate on lifecycle_dead_letters
    for each statement
    execute function refuse('a dead letter is kept as it came: it never changes');
