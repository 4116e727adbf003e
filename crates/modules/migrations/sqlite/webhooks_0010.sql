-- A dead letter whose delivery was requeued before does not wait: another program had inserted one in its place, which was requeued
-- and then removed.
drop trigger dead_letters_wait;

create trigger dead_letters_wait after insert on dead_letters
when not exists (select 1 from webhook_delivery_sagas where requeue_of = new.saga_id)
begin
    insert into waiting_dead_letters (
        saga_id, event_id, subscription_id, attempt_count, final_error_code, webhook_id, created_at
    )
    values (
        new.saga_id, new.event_id, new.subscription_id, new.attempt_count, new.final_error_code, new.webhook_id,
        new.created_at
    );
end;

delete from waiting_dead_letters
where exists (select 1 from webhook_delivery_sagas where requeue_of = waiting_dead_letters.saga_id);
