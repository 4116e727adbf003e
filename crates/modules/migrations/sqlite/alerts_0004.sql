-- Guards of stored history that hold for every program: `INSERT OR REPLACE` fires no delete trigger, so a key that exists
-- is refused. A notice that is not out yet is tried again, and its row changes.

create trigger alert_notices_refuse_replace before insert on alert_notices
when exists (
    select 1
    from alert_notices
    where alert_key = new.alert_key
        and channel = new.channel
        and recipient = new.recipient
        and notified_at is not null
)
begin
    select raise(abort, 'the notice is out: it is never replaced');
end;

create trigger alert_notices_refuse_new_key before update of alert_key, channel, recipient on alert_notices
begin
    select raise(abort, 'the alert, channel and recipient of a notice never change');
end;

create trigger alert_notices_refuse_delete before delete on alert_notices
when old.notified_at is not null
    and (
        exists (
            select 1
            from outbox
            where topic = 'backstitch.alerts' and idempotency_key = old.alert_key and retry_of is null
        )
        or exists (
            select 1
            from outbox
            where topic = 'backstitch.alerts' and idempotency_key = old.alert_key and retry_of is not null
        )
    )
begin
    select raise(abort, 'the notice is out: it can be deleted only after its alert');
end;

create trigger alert_acknowledgements_refuse_replace before insert on alert_acknowledgements
when exists (select 1 from alert_acknowledgements where alert_key = new.alert_key)
begin
    select raise(abort, 'the alert is acknowledged: the first acknowledgement is kept');
end;

create trigger alert_acknowledgements_refuse_delete before delete on alert_acknowledgements
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
    select raise(abort, 'an acknowledgement can be deleted only after its alert');
end;
