-- Recipients of an alert, written before the first delivery. Without them an alert that only the log has would look
-- delivered while its mail was never tried.

create table alert_recipients (
    alert_key text collate "C" not null,
    channel   text collate "C" not null,
    recipient text collate "C" not null default '',
    primary key (alert_key, channel, recipient)
);

insert into alert_recipients (alert_key, channel, recipient)
select alert_key, channel, recipient
from alert_notices;

create trigger alert_recipients_refuse_update
    before update on alert_recipients
    for each row
    execute function refuse('the recipients of an alert never change');

create trigger alert_recipients_refuse_truncate
    before truncate on alert_recipients
    for each statement
    execute function refuse('recipients are never truncated: they are deleted with their alert');

create function alert_exists(alert_key text) returns boolean
    language sql stable
    set search_path = pg_catalog, pg_temp
as $$
    -- Two probes: each of the two indexes holds one kind.
    select exists (
        select
        from $schema.outbox
        where topic = 'backstitch.alerts' and idempotency_key = alert_key and retry_of is null
    ) or exists (
        select
        from $schema.outbox
        where topic = 'backstitch.alerts' and idempotency_key = alert_key and retry_of is not null
    );
$$;

create function refuse_recipient_before_alert() returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if $schema.alert_exists(old.alert_key) then
        raise exception 'a recipient can be deleted only after its alert'
            using errcode = 'restrict_violation', table = tg_table_name;
    end if;
    return old;
end;
$$;

create trigger alert_recipients_refuse_delete
    before delete on alert_recipients
    for each row
    execute function refuse_recipient_before_alert();

-- Nodes of an earlier version write notices alone.
create function add_recipient_of_notice() returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    insert into $schema.alert_recipients (alert_key, channel, recipient)
    values (new.alert_key, new.channel, new.recipient)
    on conflict do nothing;
    return null;
end;
$$;

create trigger alert_notices_have_recipients
    after insert on alert_notices
    for each row
    execute function add_recipient_of_notice();

create function delete_recipients_of_alert() returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not $schema.alert_exists(old.idempotency_key) then
        delete from $schema.alert_recipients where alert_key = old.idempotency_key;
    end if;
    return null;
end;
$$;

create trigger alerts_delete_their_recipients
    after delete on outbox
    for each row
    when (old.topic = 'backstitch.alerts')
    execute function delete_recipients_of_alert();

-- A resolution closes the alerts of the step it is about. A retry that fails raises a new alert. An alert's key is the saga's
-- id and the number of the event that raised it.
create function close_alerts_with_resolution() returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    insert into $schema.alert_acknowledgements (alert_key, acknowledged_by, note, acknowledged_at)
    select
        raised.idempotency_key,
        'resolution',
        'step ' || new.step || ' was resolved: event ' || new.seq || ' of the saga',
        new.at
    from $schema.saga_events as failed
    join $schema.outbox as raised
        on raised.topic = 'backstitch.alerts'
        and raised.retry_of is null
        and raised.idempotency_key = failed.saga_id || ':' || failed.seq
    where failed.saga_id = new.saga_id
        and failed.type = 'step.compensation_failed'
        and failed.step = new.step
        and failed.seq < new.seq
    on conflict (alert_key) do nothing;
    return null;
end;
$$;

create trigger alerts_close_with_resolution
    after insert on saga_events
    for each row
    when (new.type = 'step.resolved')
    execute function close_alerts_with_resolution();
