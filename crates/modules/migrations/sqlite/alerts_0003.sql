-- Who was told of an alert, and who has taken it upon them, goes with its last message, in the same transaction.

create trigger alerts_take_their_notices after delete on outbox
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
    delete from alert_notices where alert_key = old.idempotency_key;
    delete from alert_acknowledgements where alert_key = old.idempotency_key;
end;
