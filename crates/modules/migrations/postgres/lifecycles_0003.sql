-- Lifecycles that are abandoned in a pause state.

-- `ended` says that the state is terminal. An abandoned lifecycle has ended too, in the pause state it stays in.
alter table lifecycles
    add column abandoned boolean not null default false,
    add constraint lifecycles_abandoned_check
        check (not abandoned or (not ended and due_at is null and holder is null and stuck_at is null));

create index lifecycles_abandoned on lifecycles (machine, state, id) where abandoned;

drop index lifecycles_version;
create index lifecycles_version on lifecycles (machine, version) where not ended and not abandoned;

drop trigger lifecycles_ended_never_change on lifecycles;
create trigger lifecycles_ended_never_change
    before update on lifecycles
    for each row
    when (old.ended or old.abandoned)
    execute function refuse('it is at its end: its row does not change any more');

drop trigger lifecycles_active_never_go on lifecycles;
create trigger lifecycles_active_never_go
    before delete on lifecycles
    for each row
    when (not old.ended and not old.abandoned)
    execute function refuse('it is not at its end: only what is can be deleted');
