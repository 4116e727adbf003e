-- An order goes with its saga, in the same transaction.

create function remove_orders_of_sagas() returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    delete from $schema.orders where tx_id in (select id from gone);
    return null;
end;
$$;

create trigger sagas_take_their_orders
    after delete on sagas
    referencing old table as gone
    for each statement
    execute function remove_orders_of_sagas();
