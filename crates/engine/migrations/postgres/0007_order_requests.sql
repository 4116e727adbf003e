-- Seed 003's table of order requests for every program: an INSERT publishes, and a message of the outbox is due unless
-- something else is said.

alter table outbox
    alter column due_at set default clock(),
    alter column created_at set default clock(),
    alter column updated_at set default clock();

alter view outbox_orders alter column created_at set default $schema.clock();
alter view outbox_orders alter column updated_at set default $schema.clock();
alter view outbox_orders alter column status set default 'pending';
alter view outbox_orders alter column attempts set default 0;

-- Publishes with the rights of the schema's owner, so a program needs no more than INSERT on the view. The digest is
-- computed, whatever normal form the program has computed its own of.
create function enqueue_order() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, $schema, pg_temp
as $$
declare
    missing text := case
        when new.idempotency_key is null then 'idempotency_key'
        when new.order_request_json is null then 'order_request_json'
        when new.request_digest is null then 'request_digest'
        when new.status is null then 'status'
        when new.attempts is null then 'attempts'
        when new.created_at is null then 'created_at'
        when new.updated_at is null then 'updated_at'
    end;
    kept bigint;
begin
    if missing is not null then
        raise exception '% of an order request must not be null: give a value', missing
            using errcode = 'not_null_violation', table = tg_table_name, column = missing;
    end if;
    if new.id is not null
        or new.status <> 'pending'
        or new.attempts <> 0
        or num_nonnulls(new.last_error_code, new.last_error_msg, new.locked_by, new.locked_at) > 0
    then
        raise exception 'a new order request is pending: leave id, status, attempts, errors and locks to the outbox'
            using errcode = 'check_violation', table = tg_table_name;
    end if;
    kept := $schema.publish(
        'orders', new.idempotency_key, new.order_request_json, null, new.expires_at, true
    );
    select o.* into new from $schema.outbox_orders as o where o.id = kept;
    return new;
end;
$$;

create trigger outbox_orders_insert
    instead of insert on outbox_orders
    for each row
    execute function enqueue_order();

create trigger outbox_orders_refuse_update
    instead of update on outbox_orders
    for each row
    execute function refuse('an order request is changed by the outbox alone: insert a new one');

create trigger outbox_orders_refuse_delete
    instead of delete on outbox_orders
    for each row
    execute function refuse('an order request is removed by retention alone: see [retention]');

-- Seed 003's ledger of order requests.
create view idempo_ledger as
select
    key as idempotency_key,
    encode(digest, 'hex') as request_digest,
    state as status,
    as_jsonb(result) as result,
    at as created_at
from idempotency_ledger
where scope = 'outbox/orders';

create trigger idempo_ledger_refuse_change
    instead of insert or update or delete on idempo_ledger
    for each row
    execute function refuse('the ledger is written by the outbox alone: insert into outbox_orders');

-- Both by their names alone, on the search path that every session begins with, where nothing else has the name. There is one
-- such place in a database, so an engine in a schema of its own leaves it alone.
do $$
declare
    name text;
begin
    if '$schema' <> 'backstitch'
        or not exists (select from pg_namespace where nspname = 'public')
        or not has_schema_privilege('public', 'create')
    then
        return;
    end if;
    foreach name in array array['outbox_orders', 'idempo_ledger'] loop
        if to_regclass('public.' || name) is null then
            execute format('create view public.%I as select * from $schema.%I', name, name);
        end if;
    end loop;
end;
$$;
