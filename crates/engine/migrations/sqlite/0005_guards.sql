-- Guards of stored history that hold for every program, such as the sqlite3 shell.
--
-- `INSERT OR REPLACE` deletes the rows in its way, and fires their delete triggers only on a connection that has set
-- `recursive_triggers`. So a guarded table refuses to insert a key that exists. `UPDATE OR REPLACE` does the same, so keys
-- never change. A trigger `update of id` does not see an update of `rowid`, so such tables compare the ids.
--
-- Guards that run with every insert or update `fail` instead of `abort`: SQLite would otherwise keep a statement journal.

create trigger definitions_refuse_replace before insert on definitions
when exists (select 1 from definitions where name = new.name and version = new.version)
begin
    select raise(abort, 'the definition has this version: register a new version');
end;

create trigger definitions_refuse_delete before delete on definitions
begin
    select raise(abort, 'a version of a definition is never deleted: sagas and logs refer to it');
end;

create trigger sagas_refuse_replace before insert on sagas
when exists (select 1 from sagas where id = new.id)
begin
    select raise(fail, 'the saga exists: a saga is never replaced');
end;

-- Only connections that Backstitch has opened have this function. To look for the key would cost a lookup with every event.
create trigger saga_events_refuse_other_programs after insert on saga_events
when not only_backstitch_appends_events()
begin
    select raise(fail, 'only Backstitch appends to saga_events');
end;

create trigger saga_attributes_refuse_update before update on saga_attributes
begin
    select raise(abort, 'attributes are set when the saga starts: they never change');
end;

create trigger saga_attributes_refuse_delete before delete on saga_attributes
when exists (select 1 from sagas where id = old.saga_id)
begin
    select raise(abort, 'attributes can be deleted only after the row of their saga');
end;

create trigger saga_inbox_refuse_replace before insert on saga_inbox
when exists (select 1 from saga_inbox where saga_id = new.saga_id and seq = new.seq)
begin
    select raise(fail, 'the inbox has a message of this number: a message is never replaced');
end;

create trigger saga_inbox_refuse_update before update on saga_inbox
begin
    select raise(abort, 'a message in an inbox never changes');
end;

create trigger jobs_refuse_replace before insert on jobs
when exists (select 1 from jobs where id = new.id)
    or (
        new.status in ('Pending', 'Leased')
        and (
            exists (
                select 1
                from jobs
                where saga_id is not null
                    and saga_id = new.saga_id
                    and subject = new.subject
                    and status in ('Pending', 'Leased')
            )
            or exists (
                select 1
                from jobs
                where delivery_id is not null
                    and delivery_id = new.delivery_id
                    and status in ('Pending', 'Leased')
            )
        )
    )
begin
    select raise(fail, 'the job exists: a job is never replaced');
end;

create trigger jobs_refuse_new_id before update on jobs
when new.id <> old.id
begin
    select raise(fail, 'the id of a job never changes');
end;

create trigger jobs_refuse_new_origin
before update of saga_id, delivery_id, lane, queue, subject, payload, alert, created_at on jobs
begin
    select raise(abort, 'what a job was created with never changes');
end;

create trigger jobs_refuse_delete before delete on jobs
when old.status in ('Pending', 'Leased')
begin
    select raise(abort, 'the job is active: only a finished job can be deleted');
end;

create trigger job_results_refuse_replace before insert on job_results
when exists (select 1 from job_results where job_id = new.job_id)
begin
    select raise(fail, 'the job has a result: a result is never replaced');
end;

create trigger job_results_refuse_update before update on job_results
begin
    select raise(abort, 'the result of a job never changes');
end;

create trigger idempotency_ledger_refuse_replace before insert on idempotency_ledger
when exists (select 1 from idempotency_ledger where scope = new.scope and key = new.key)
begin
    select raise(fail, 'the idempotency key exists: a key is never replaced');
end;

create trigger idempotency_ledger_refuse_new_origin
before update of scope, key, digest, saga_id, at on idempotency_ledger
begin
    select raise(abort, 'what an idempotency key was first used for never changes');
end;

-- A failed one begins again when its message is retried.
create trigger idempotency_ledger_refuse_new_result before update on idempotency_ledger
when old.state = 'succeeded'
begin
    select raise(fail, 'the result of an idempotency key never changes after its success');
end;

create trigger idempotency_ledger_refuse_delete before delete on idempotency_ledger
when case
    when old.saga_id is not null then exists (select 1 from sagas where id = old.saga_id)
    when substr(old.scope, 1, 7) = 'outbox/' then
        exists (
            select 1
            from outbox
            where topic = substr(old.scope, 8) and idempotency_key = old.key and retry_of is null
        )
        or exists (
            select 1
            from outbox
            where topic = substr(old.scope, 8) and idempotency_key = old.key and retry_of is not null
        )
    else false
end
begin
    select raise(abort, 'an idempotency key can be deleted only after its saga or message');
end;

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
    select raise(fail, 'the message exists: a message is never replaced');
end;

create trigger outbox_refuse_new_id before update on outbox
when new.id <> old.id
begin
    select raise(fail, 'the id of a message never changes');
end;

create trigger outbox_refuse_new_origin
before update of topic, idempotency_key, ordering_key, payload, request_digest, retry_of, created_at on outbox
begin
    select raise(abort, 'what a message was published with never changes: publish a new message');
end;

create trigger outbox_refuse_delete before delete on outbox
when old.status not in ('succeeded', 'aborted')
begin
    select raise(abort, 'the message is not sent: only a settled message can be deleted');
end;
