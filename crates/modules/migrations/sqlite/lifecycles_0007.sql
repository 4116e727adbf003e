-- Guards that cost less with every row: see `0011_cheaper_guards.sql` of the engine.

drop trigger lifecycles_refuse_replace;
create trigger lifecycles_refuse_insert after insert on lifecycles
when not only_backstitch_changes_lifecycles()
begin
    select raise(fail, 'only Backstitch inserts lifecycles');
end;

drop trigger lifecycles_ended_never_change;
drop trigger lifecycles_refuse_other_programs;
create trigger lifecycles_refuse_update before update on lifecycles
when old.ended or old.abandoned or not only_backstitch_changes_lifecycles()
begin
    select raise(fail, 'it is at its end: its row does not change any more') where old.ended or old.abandoned;
    select raise(fail, 'only Backstitch changes lifecycles');
end;
