-- The dead letters that nobody has sent after all, found without a look at those that somebody has. A letter comes with what was given
-- up, and goes once it is requeued, or removed.

create table waiting_dead_letters (
    saga_id          integer primary key,
    event_id         integer not null,
    subscription_id  integer not null,
    attempt_count    integer not null,
    final_error_code text,
    webhook_id       text    not null,
    created_at       integer not null
) strict;

create index idx_waiting_letter_subscription on waiting_dead_letters (subscription_id);
create index idx_waiting_letter_event on waiting_dead_letters (event_id);
create index idx_waiting_letter_code on waiting_dead_letters (final_error_code);

insert into waiting_dead_letters (
    saga_id, event_id, subscription_id, attempt_count, final_error_code, webhook_id, created_at
)
select saga_id, event_id, subscription_id, attempt_count, final_error_code, webhook_id, created_at
from dead_letters
where not exists (select 1 from webhook_delivery_sagas where requeue_of = dead_letters.saga_id);

create trigger dead_letters_wait after insert on dead_letters
begin
    insert into waiting_dead_letters (
        saga_id, event_id, subscription_id, attempt_count, final_error_code, webhook_id, created_at
    )
    values (
        new.saga_id, new.event_id, new.subscription_id, new.attempt_count, new.final_error_code, new.webhook_id,
        new.created_at
    );
end;

create trigger dead_letters_wait_no_more after delete on dead_letters
begin
    delete from waiting_dead_letters where saga_id = old.saga_id;
end;

create trigger webhook_delivery_sagas_requeue after insert on webhook_delivery_sagas
when new.requeue_of is not null
begin
    delete from waiting_dead_letters where saga_id = new.requeue_of;
end;
