-- A dead letter belongs to history once its delivery is dead-lettered, which never changes. Another program may have inserted
-- one before: it is in the way of the delivery's own, so it can be deleted.
drop trigger dead_letters_refuse_delete;

create trigger dead_letters_refuse_delete before delete on dead_letters
when exists (select 1 from webhook_delivery_sagas where id = old.saga_id and status = 'DeadLettered')
begin
    select raise(abort, 'a dead letter can be deleted only after its delivery');
end;
