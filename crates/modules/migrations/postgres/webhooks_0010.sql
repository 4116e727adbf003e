-- A dead letter whose delivery was requeued before does not wait: another program had inserted one in its place, which was requeued
-- and then removed.
create or replace function dead_letter_waits() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    insert into $schema.waiting_dead_letters (
        saga_id, event_id, subscription_id, created_at, attempt_count, final_error_code, webhook_id
    )
    select
        new.saga_id, new.event_id, new.subscription_id, new.created_at, new.attempt_count, new.final_error_code,
        new.webhook_id
    where not exists (select from $schema.webhook_delivery_sagas where requeue_of = new.saga_id);
    return null;
end;
$$;

delete from waiting_dead_letters
where exists (select from webhook_delivery_sagas where requeue_of = waiting_dead_letters.saga_id);
