-- Guards that hold for programs that supply any collation: see `0013_atomic_refusals.sql` of the engine.

drop trigger lifecycles_refuse_insert;
create trigger lifecycles_refuse_insert after insert on lifecycles
when 'a' <> 'b' collate only_backstitch_writes
begin
    select raise(rollback, 'only Backstitch inserts lifecycles');
end;

drop trigger lifecycles_refuse_update;
create trigger lifecycles_refuse_update before update on lifecycles
when old.ended or old.abandoned or 'a' <> 'b' collate only_backstitch_writes
begin
    select raise(fail, 'only Backstitch changes lifecycles') where 'a' <> 'b' collate only_backstitch_writes;
    select raise(fail, 'it is at its end: its row does not change any more');
end;
