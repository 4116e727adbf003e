-- Guards of stored history that hold for every program.

create function $schema.api_keys_never_change() returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'a key is never changed or deleted: revoke it and create a new one'
        using errcode = 'restrict_violation', table = tg_table_name;
end;
$$;

create trigger api_keys_refuse_new_origin
    before update of id, hash, role, name, last_four, created_at, expires_at on $schema.api_keys
    for each row
    execute function $schema.api_keys_never_change();

create trigger api_keys_refuse_delete
    before delete or truncate on $schema.api_keys
    for each statement
    execute function $schema.api_keys_never_change();
