-- Only Backstitch adds to the audit: see `0013_atomic_refusals.sql` of the engine. No lookup of the key is needed then.
drop trigger audit_refuse_replace;
create trigger audit_refuse_other_programs after insert on audit
when 'a' <> 'b' collate only_backstitch_writes
begin
    select raise(rollback, 'only Backstitch adds to the audit');
end;

drop trigger audit_answers_refuse_replace;
create trigger audit_answers_refuse_other_programs after insert on audit_answers
when 'a' <> 'b' collate only_backstitch_writes
begin
    select raise(rollback, 'only Backstitch adds to the audit');
end;
