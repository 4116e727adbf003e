-- Guards of stored history that hold for every program.

create trigger alert_notices_refuse_new_key
    before update of alert_key, channel, recipient on alert_notices
    for each row
    execute function refuse('the alert, channel and recipient of a notice never change');

create function refuse_before_alert() returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    -- Two probes: each of the two indexes holds one kind.
    if exists (
        select
        from $schema.outbox
        where topic = 'backstitch.alerts' and idempotency_key = old.alert_key and retry_of is null
    ) or exists (
        select
        from $schema.outbox
        where topic = 'backstitch.alerts' and idempotency_key = old.alert_key and retry_of is not null
    ) then
        raise exception '%', tg_argv[0] using errcode = 'restrict_violation', table = tg_table_name;
    end if;
    return old;
end;
$$;

create trigger alert_notices_refuse_delete
    before delete on alert_notices
    for each row
    when (old.notified_at is not null)
    execute function refuse_before_alert('the notice is out: it can be deleted only after its alert');

create trigger alert_notices_refuse_truncate
    before truncate on alert_notices
    for each statement
    execute function refuse('notices are never truncated: they are deleted with their alert');

create trigger alert_acknowledgements_refuse_delete
    before delete on alert_acknowledgements
    for each row
    execute function refuse_before_alert('an acknowledgement can be deleted only after its alert');

create trigger alert_acknowledgements_refuse_truncate
    before truncate on alert_acknowledgements
    for each statement
    execute function refuse('acknowledgements are never truncated: they are deleted with their alert');
