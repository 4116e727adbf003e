-- Who was told of an alert, and who has taken it upon them, goes with its last message, in the same transaction.

create function remove_notices_of_alert() returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (
        select
        from $schema.outbox
        where topic = old.topic and idempotency_key = old.idempotency_key and retry_of is not null
    ) or exists (
        select
        from $schema.outbox
        where topic = old.topic and idempotency_key = old.idempotency_key and retry_of is null
    ) then
        return null;
    end if;
    delete from $schema.alert_notices where alert_key = old.idempotency_key;
    delete from $schema.alert_acknowledgements where alert_key = old.idempotency_key;
    return null;
end;
$$;

create trigger alerts_take_their_notices
    after delete on outbox
    for each row
    when (old.topic = 'backstitch.alerts')
    execute function remove_notices_of_alert();
