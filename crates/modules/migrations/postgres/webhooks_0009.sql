-- A dead letter belongs to history once its delivery is dead-lettered, which never changes. Another program may have inserted
-- one before: it is in the way of the delivery's own, so it can be deleted.
create function refuse_before_dead_lettered_delivery() returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (
        select
        from $schema.webhook_delivery_sagas
        where id = old.saga_id and status = 'DeadLettered'
    ) then
        raise exception 'a dead letter can be deleted only after its delivery'
            using errcode = 'restrict_violation', table = tg_table_name;
    end if;
    return old;
end;
$$;

drop trigger dead_letters_refuse_delete on dead_letters;

create trigger dead_letters_refuse_delete
    before delete on dead_letters
    for each row
    execute function refuse_before_dead_lettered_delivery();
