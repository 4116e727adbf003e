-- Guards that hold for programs that supply any collation a statement names, and refusals that undo a whole statement.

-- Only Backstitch inserts these rows. In its collation the two texts are equal. A program without the collation cannot prepare
-- the statement; in any other collation the texts differ, and the transaction is rolled back, with any row that the insert had
-- replaced. A guard before the insert would cost a third of the insert of an event: SQLite prepares the new row twice for it.

drop trigger saga_events_refuse_other_programs;
create trigger saga_events_refuse_other_programs after insert on saga_events
when 'a' <> 'b' collate only_backstitch_writes
begin
    select raise(rollback, 'only Backstitch appends to saga_events');
end;

drop trigger sagas_refuse_other_programs;
create trigger sagas_refuse_other_programs after insert on sagas
when 'a' <> 'b' collate only_backstitch_writes
begin
    select raise(rollback, 'only Backstitch inserts sagas');
end;

drop trigger jobs_refuse_other_programs;
create trigger jobs_refuse_other_programs after insert on jobs
when 'a' <> 'b' collate only_backstitch_writes
begin
    select raise(rollback, 'only Backstitch inserts jobs');
end;

drop trigger job_results_refuse_other_programs;
create trigger job_results_refuse_other_programs after insert on job_results
when 'a' <> 'b' collate only_backstitch_writes
begin
    select raise(rollback, 'only Backstitch inserts results of jobs');
end;

-- Rows that other programs may write too are refused by a constraint, because a constraint follows the statement's conflict
-- clause. A plain statement of another program is undone as a whole: `raise(fail)` would keep the rows before the refused one.
-- Statements of Backstitch say `or fail`, so SQLite keeps no statement journal for them: `raise(abort)` would make it keep one.
-- `raise(ignore)` is reached where the statement says `or ignore`: it skips the row.
create table refusals (
    rule text not null,
    constraint "the saga is at its end: its row does not change any more" check (rule <> 'saga at its end'),
    constraint "the inbox has a message of this number: a message is never replaced"
        check (rule <> 'message in inbox exists'),
    constraint "the job is finished: it is never used again" check (rule <> 'finished job'),
    constraint "the id of a job never changes" check (rule <> 'id of job'),
    constraint "the idempotency key exists: a key is never replaced" check (rule <> 'key exists'),
    constraint "the idempotency key of a start names its saga: saga_id is missing" check (rule <> 'key without saga'),
    constraint "the result of an idempotency key never changes after its success" check (rule <> 'result of key'),
    constraint "the message exists: a message is never replaced" check (rule <> 'message exists'),
    constraint "the message is settled: it is never sent again" check (rule <> 'settled message'),
    constraint "the id of a message never changes" check (rule <> 'id of message'),
    constraint "this table stays empty" check (false)
) strict;

drop trigger sagas_ended_never_change;
create trigger sagas_ended_never_change before update on sagas
when old.status in ('succeeded', 'compensated') or (old.status = 'failed' and new.status <> 'compensating')
begin
    insert into refusals (rule) values ('saga at its end');
    select raise(ignore);
end;

drop trigger saga_inbox_refuse_replace;
create trigger saga_inbox_refuse_replace before insert on saga_inbox
when exists (select 1 from saga_inbox where saga_id = new.saga_id and seq = new.seq)
begin
    insert into refusals (rule) values ('message in inbox exists');
    select raise(ignore);
end;

drop trigger jobs_refuse_update;
create trigger jobs_refuse_update before update on jobs
when old.status = 'Completed' or old.status = 'Failed' or new.id <> old.id
begin
    insert into refusals (rule) values (iif(new.id <> old.id, 'id of job', 'finished job'));
    select raise(ignore);
end;

drop trigger idempotency_ledger_refuse_replace;
create trigger idempotency_ledger_refuse_insert before insert on idempotency_ledger
when (new.saga_id is null and substr(new.scope, 1, 5) = 'saga/')
    or exists (select 1 from idempotency_ledger where scope = new.scope and key = new.key)
begin
    insert into refusals (rule)
    values (iif(
        exists (select 1 from idempotency_ledger where scope = new.scope and key = new.key),
        'key exists',
        'key without saga'
    ));
    select raise(ignore);
end;

drop trigger idempotency_ledger_refuse_new_result;
create trigger idempotency_ledger_refuse_new_result before update on idempotency_ledger
when old.state = 'succeeded'
begin
    insert into refusals (rule) values ('result of key');
    select raise(ignore);
end;

drop trigger outbox_refuse_replace;
create trigger outbox_refuse_replace before insert on outbox
when exists (select 1 from outbox where id = new.id)
    or (
        new.retry_of is null
        and exists (
            select 1
            from outbox
            where topic = new.topic and idempotency_key = new.idempotency_key and retry_of is null
        )
    )
    or (new.retry_of is not null and exists (select 1 from outbox where retry_of = new.retry_of))
begin
    insert into refusals (rule) values ('message exists');
    select raise(ignore);
end;

drop trigger outbox_refuse_update;
create trigger outbox_refuse_update before update on outbox
when old.status = 'succeeded' or old.status = 'aborted' or new.id <> old.id
begin
    insert into refusals (rule) values (iif(new.id <> old.id, 'id of message', 'settled message'));
    select raise(ignore);
end;
