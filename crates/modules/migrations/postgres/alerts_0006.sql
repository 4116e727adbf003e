-- Recipients of an alert are written in the transaction that raises it, whoever raises it.

-- Where alerts go, as the process that started last was told.
create table alert_channels (
    channel   text collate "C" not null,
    recipient text collate "C" not null default '',
    primary key (channel, recipient)
);

-- Programs that may raise an alert need no rights on these tables.
create function name_recipients_of_alert() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    insert into $schema.alert_recipients (alert_key, channel, recipient)
    select new.idempotency_key, channel, recipient
    from $schema.alert_channels
    on conflict do nothing;
    return null;
end;
$$;

create trigger alerts_name_their_recipients
    after insert on outbox
    for each row
    when (new.topic = 'backstitch.alerts' and new.retry_of is null)
    execute function name_recipients_of_alert();
