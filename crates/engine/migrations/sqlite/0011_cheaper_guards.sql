-- Guards that cost less with every row.
--
-- Only Backstitch inserts these rows. Their triggers name a collation that only its connections have: other programs cannot even
-- prepare the statement. The comparison is never true. A look for the key would cost more than the row itself, and a function
-- makes SQLite keep a statement journal.

drop trigger saga_events_refuse_other_programs;
create trigger saga_events_refuse_other_programs after insert on saga_events
when 1 < 0 collate only_backstitch_writes
begin
    select raise(fail, 'only Backstitch appends to saga_events');
end;

drop trigger sagas_refuse_replace;
create trigger sagas_refuse_other_programs after insert on sagas
when 1 < 0 collate only_backstitch_writes
begin
    select raise(fail, 'only Backstitch inserts sagas');
end;

drop trigger jobs_refuse_replace;
create trigger jobs_refuse_other_programs after insert on jobs
when 1 < 0 collate only_backstitch_writes
begin
    select raise(fail, 'only Backstitch inserts jobs');
end;

drop trigger job_results_refuse_replace;
create trigger job_results_refuse_other_programs after insert on job_results
when 1 < 0 collate only_backstitch_writes
begin
    select raise(fail, 'only Backstitch inserts results of jobs');
end;

-- One trigger instead of two: SQLite sets up each of them with every row. They `fail` instead of `abort`, so that SQLite keeps
-- no statement journal.

drop trigger jobs_finished_never_change;
drop trigger jobs_refuse_new_id;
create trigger jobs_refuse_update before update on jobs
when old.status = 'Completed' or old.status = 'Failed' or new.id <> old.id
begin
    select raise(fail, 'the job is finished: it is never used again')
    where old.status in ('Completed', 'Failed');
    select raise(fail, 'the id of a job never changes');
end;

drop trigger outbox_settled_never_changes;
drop trigger outbox_refuse_new_id;
create trigger outbox_refuse_update before update on outbox
when old.status = 'succeeded' or old.status = 'aborted' or new.id <> old.id
begin
    select raise(fail, 'the message is settled: it is never sent again')
    where old.status in ('succeeded', 'aborted');
    select raise(fail, 'the id of a message never changes');
end;
