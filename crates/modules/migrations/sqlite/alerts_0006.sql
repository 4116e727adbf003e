-- Recipients of an alert are written in the transaction that raises it, whoever raises it.

-- Where alerts go, as the process that started last was told.
create table alert_channels (
    channel   text not null,
    recipient text not null default '',
    primary key (channel, recipient)
) strict, without rowid;

create trigger alerts_name_their_recipients after insert on outbox
when new.topic = 'backstitch.alerts' and new.retry_of is null
begin
    insert into alert_recipients (alert_key, channel, recipient)
    select new.idempotency_key, channel, recipient
    from alert_channels
    where not exists (
        select 1
        from alert_recipients as named
        where named.alert_key = new.idempotency_key
            and named.channel = alert_channels.channel
            and named.recipient = alert_channels.recipient
    );
end;
