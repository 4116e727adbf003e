-- Guards of the dead letters that wait: triggers derive them from `dead_letters`, and no other program changes them.

create function refuse_waiting_letter() returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (
        select
        from $schema.dead_letters
        where saga_id = new.saga_id
            and event_id = new.event_id
            and subscription_id = new.subscription_id
            and attempt_count = new.attempt_count
            and final_error_code is not distinct from new.final_error_code
            and webhook_id = new.webhook_id
            and created_at = new.created_at
    ) then
        raise exception 'only a new dead letter waits: requeue it as a new delivery'
            using errcode = 'restrict_violation', table = tg_table_name;
    end if;
    return new;
end;
$$;

create trigger waiting_dead_letters_refuse_insert
    before insert on waiting_dead_letters
    for each row
    execute function refuse_waiting_letter();

create trigger waiting_dead_letters_refuse_update
    before update or truncate on waiting_dead_letters
    for each statement
    execute function refuse('a dead letter never changes: requeue it as a new delivery');

create function refuse_before_requeue() returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (select from $schema.dead_letters where saga_id = old.saga_id)
        and not exists (select from $schema.webhook_delivery_sagas where requeue_of = old.saga_id)
    then
        raise exception 'a dead letter waits until it is requeued or removed'
            using errcode = 'restrict_violation', table = tg_table_name;
    end if;
    return old;
end;
$$;

create trigger waiting_dead_letters_refuse_delete
    before delete on waiting_dead_letters
    for each row
    execute function refuse_before_requeue();
