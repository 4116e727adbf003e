-- Guards that cost less with every row: see `0011_cheaper_guards.sql` of the engine.

-- The reference to a state is checked when the transaction ends: checked by the statement, it would make SQLite keep a
-- statement journal. SQLite cannot change it otherwise; rebuilding the table would drop the triggers of others.
pragma writable_schema = on;

update sqlite_schema
set sql = replace(
    sql,
    'references lifecycle_states (machine, version, state, terminal)',
    'references lifecycle_states (machine, version, state, terminal) deferrable initially deferred')
where type = 'table' and name = 'lifecycles';

pragma writable_schema = reset;

drop trigger lifecycles_refuse_replace;
create trigger lifecycles_refuse_insert after insert on lifecycles
when 1 < 0 collate only_backstitch_writes
begin
    select raise(fail, 'only Backstitch inserts lifecycles');
end;

drop trigger lifecycles_ended_never_change;
drop trigger lifecycles_refuse_other_programs;
create trigger lifecycles_refuse_update before update on lifecycles
when old.ended or old.abandoned or 1 < 0 collate only_backstitch_writes
begin
    select raise(fail, 'it is at its end: its row does not change any more') where old.ended or old.abandoned;
    select raise(fail, 'only Backstitch changes lifecycles');
end;
