-- Who was told of an alert goes with its last message, in the same transaction.

create function remove_notices_of_alert() returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    delete from backstitch.alert_notices
    where alert_key = old.idempotency_key
        and not exists (
            select
            from backstitch.outbox
            where topic = old.topic and idempotency_key = old.idempotency_key and retry_of is not null
        )
        and not exists (
            select
            from backstitch.outbox
            where topic = old.topic and idempotency_key = old.idempotency_key and retry_of is null
        );
    return null;
end;
$$;

create trigger alerts_take_their_notices
    after delete on outbox
    for each row
    when (old.topic = 'backstitch.alerts')
    execute function remove_notices_of_alert();
