-- Guards of the dead letters that wait: triggers derive them from `dead_letters`, and no other program changes them.

create trigger waiting_dead_letters_refuse_replace before insert on waiting_dead_letters
when exists (select 1 from waiting_dead_letters where saga_id = new.saga_id)
    or not exists (
        select 1
        from dead_letters
        where saga_id = new.saga_id
            and event_id = new.event_id
            and subscription_id = new.subscription_id
            and attempt_count = new.attempt_count
            and final_error_code is new.final_error_code
            and webhook_id = new.webhook_id
            and created_at = new.created_at
    )
begin
    select raise(abort, 'only a new dead letter waits: requeue it as a new delivery');
end;

create trigger waiting_dead_letters_refuse_update before update on waiting_dead_letters
begin
    select raise(abort, 'a dead letter never changes: requeue it as a new delivery');
end;

create trigger waiting_dead_letters_refuse_delete before delete on waiting_dead_letters
when exists (select 1 from dead_letters where saga_id = old.saga_id)
    and not exists (select 1 from webhook_delivery_sagas where requeue_of = old.saga_id)
begin
    select raise(abort, 'a dead letter waits until it is requeued or removed');
end;
