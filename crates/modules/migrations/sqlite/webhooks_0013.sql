-- Guards that hold for programs that supply any collation, and refusals that undo a whole statement: see
-- `0013_atomic_refusals.sql` of the engine.

drop trigger webhook_events_refuse_other_programs;
create trigger webhook_events_refuse_other_programs after insert on webhook_events
when 'a' <> 'b' collate only_backstitch_writes
begin
    select raise(rollback, 'only Backstitch inserts events: send them to POST /v1/webhooks/events');
end;

drop trigger webhook_attempts_refuse_other_programs;
create trigger webhook_attempts_refuse_other_programs after insert on webhook_attempts
when 'a' <> 'b' collate only_backstitch_writes
begin
    select raise(rollback, 'only Backstitch inserts attempts');
end;

drop trigger webhook_delivery_sagas_refuse_insert;
create trigger webhook_delivery_sagas_refuse_insert before insert on webhook_delivery_sagas
when
    new.status <> 'Pending' or new.attempt_count <> 0 or new.job_id is not null
    or new.final_error_code is not null or 'a' <> 'b' collate only_backstitch_writes
begin
    select raise(fail, 'only Backstitch inserts deliveries') where 'a' <> 'b' collate only_backstitch_writes;
    select raise(fail, 'a delivery begins Pending, with no attempt made');
end;

create table webhook_refusals (
    rule text not null,
    constraint "the delivery is at its end: its row does not change any more" check (rule <> 'delivery at its end'),
    constraint "what a delivery was made from never changes" check (rule <> 'id of delivery'),
    constraint "no such step leads from there: only results count, each once" check (rule <> 'step of delivery'),
    constraint "this table stays empty" check (false)
) strict;

drop trigger webhook_delivery_sagas_refuse_update;
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
    insert into webhook_refusals (rule)
    values (
        case
            when old.status in ('Completed', 'DeadLettered') then 'delivery at its end'
            when new.id <> old.id then 'id of delivery'
            else 'step of delivery'
        end
    );
    select raise(ignore);
end;
