-- Recipients of an alert, written before the first delivery. Without them an alert that only the log has would look
-- delivered while its mail was never tried.

create table alert_recipients (
    alert_key text not null,
    channel   text not null,
    recipient text not null default '',
    primary key (alert_key, channel, recipient)
) strict, without rowid;

insert into alert_recipients (alert_key, channel, recipient)
select alert_key, channel, recipient
from alert_notices;

create trigger alert_recipients_refuse_replace before insert on alert_recipients
when exists (
    select 1
    from alert_recipients
    where alert_key = new.alert_key and channel = new.channel and recipient = new.recipient
)
begin
    select raise(abort, 'the recipient exists: it is never replaced');
end;

create trigger alert_recipients_refuse_update before update on alert_recipients
begin
    select raise(abort, 'the recipients of an alert never change');
end;

create trigger alert_recipients_refuse_delete before delete on alert_recipients
when exists (
        select 1
        from outbox
        where topic = 'backstitch.alerts' and idempotency_key = old.alert_key and retry_of is null
    )
    or exists (
        select 1
        from outbox
        where topic = 'backstitch.alerts' and idempotency_key = old.alert_key and retry_of is not null
    )
begin
    select raise(abort, 'a recipient can be deleted only after its alert');
end;

-- Nodes of an earlier version write notices alone.
create trigger alert_notices_have_recipients after insert on alert_notices
begin
    insert into alert_recipients (alert_key, channel, recipient)
    select new.alert_key, new.channel, new.recipient
    where not exists (
        select 1
        from alert_recipients
        where alert_key = new.alert_key and channel = new.channel and recipient = new.recipient
    );
end;

create trigger alerts_delete_their_recipients after delete on outbox
when old.topic = 'backstitch.alerts'
    and not exists (
        select 1
        from outbox
        where topic = old.topic and idempotency_key = old.idempotency_key and retry_of is not null
    )
    and not exists (
        select 1
        from outbox
        where topic = old.topic and idempotency_key = old.idempotency_key and retry_of is null
    )
begin
    delete from alert_recipients where alert_key = old.idempotency_key;
end;

-- A resolution closes the alerts of the step it is about. A retry that fails raises a new alert. An alert's key is the saga's
-- id and the number of the event that raised it.
create trigger alerts_close_with_resolution after insert on saga_events
when new.type = 'step.resolved'
begin
    insert into alert_acknowledgements (alert_key, acknowledged_by, note, acknowledged_at)
    select
        raised.idempotency_key,
        'resolution',
        'step ' || new.step || ' was resolved: event ' || new.seq || ' of the saga',
        new.at
    from saga_events as failed
    join outbox as raised
        on raised.topic = 'backstitch.alerts'
        and raised.retry_of is null
        and raised.idempotency_key = lower(
            substr(hex(new.saga_id), 1, 8) || '-' || substr(hex(new.saga_id), 9, 4) || '-'
            || substr(hex(new.saga_id), 13, 4) || '-' || substr(hex(new.saga_id), 17, 4) || '-'
            || substr(hex(new.saga_id), 21)
        ) || ':' || failed.seq
    where failed.saga_id = new.saga_id
        and failed.type = 'step.compensation_failed'
        and failed.step = new.step
        and failed.seq < new.seq
        and not exists (select 1 from alert_acknowledgements where alert_key = raised.idempotency_key);
end;
