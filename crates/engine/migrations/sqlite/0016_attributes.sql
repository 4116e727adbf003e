-- Attributes of a saga come with its start, from Backstitch alone: see `0013_atomic_refusals.sql`.
create trigger saga_attributes_refuse_other_programs after insert on saga_attributes
when 'a' <> 'b' collate only_backstitch_writes
begin
    select raise(rollback, 'only Backstitch inserts attributes');
end;
