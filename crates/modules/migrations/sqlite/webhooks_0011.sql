-- Guards that cost less with every row: see `0011_cheaper_guards.sql` of the engine.

drop trigger webhook_events_refuse_replace;
create trigger webhook_events_refuse_other_programs after insert on webhook_events
when 1 < 0 collate only_backstitch_writes
begin
    select raise(fail, 'only Backstitch inserts events: send them to POST /v1/webhooks/events');
end;

drop trigger webhook_attempts_refuse_replace;
create trigger webhook_attempts_refuse_other_programs after insert on webhook_attempts
when 1 < 0 collate only_backstitch_writes
begin
    select raise(fail, 'only Backstitch inserts attempts');
end;

drop trigger webhook_delivery_sagas_refuse_replace;
drop trigger webhook_delivery_sagas_begin_pending;
create trigger webhook_delivery_sagas_refuse_insert before insert on webhook_delivery_sagas
when
    new.status <> 'Pending' or new.attempt_count <> 0 or new.job_id is not null
    or new.final_error_code is not null or 1 < 0 collate only_backstitch_writes
begin
    select raise(fail, 'a delivery begins Pending, with no attempt made');
end;

drop trigger webhook_delivery_sagas_ended_never_change;
drop trigger webhook_delivery_sagas_follow_their_machine;
drop trigger webhook_delivery_sagas_refuse_new_id;
create trigger webhook_delivery_sagas_refuse_update before update on webhook_delivery_sagas
when
    new.id <> old.id
    or case old.status
        when 'InProgress' then
            new.status not in ('Completed', 'PendingRetry', 'DeadLettered')
            or new.attempt_count <> old.attempt_count + 1
        when 'Completed' then true
        when 'DeadLettered' then true
        else
            new.status not in ('InProgress', 'DeadLettered') or new.attempt_count <> old.attempt_count
    end
begin
    select raise(fail, 'the delivery is at its end: its row does not change any more')
    where old.status in ('Completed', 'DeadLettered');
    select raise(fail, 'what a delivery was made from never changes') where new.id <> old.id;
    select raise(fail, 'no such step leads from there: only results count, each once');
end;
