-- Who was told of an alert goes with its last message, in the same transaction.

create trigger alerts_take_their_notices after delete on outbox
when old.topic = 'backstitch.alerts'
begin
    delete from alert_notices
    where alert_key = old.idempotency_key
        and not exists (
            select 1
            from outbox
            where topic = old.topic and idempotency_key = old.idempotency_key and retry_of is not null
        )
        and not exists (
            select 1
            from outbox
            where topic = old.topic and idempotency_key = old.idempotency_key and retry_of is null
        );
end;
