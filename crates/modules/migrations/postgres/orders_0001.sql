-- Orders as they were confirmed, each written in the transaction that starts its saga.

create table orders (
    tx_id       uuid             not null primary key,
    created_at  timestamptz      not null,
    order_id    text collate "C" not null,
    customer_id text collate "C" not null,
    items       text             not null,
    amount      text             not null
);

-- A confirmation may be sent twice: each one is a transaction of its own.
create index orders_order_id on orders (order_id, tx_id);

create trigger orders_never_change
    before update or truncate on orders
    for each statement
    execute function refuse('an order is kept as it was confirmed: confirm it again to change it');

create function refuse_while_order_has_saga() returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (select from $schema.sagas where id = old.tx_id) then
        raise exception 'an order is kept with its log: it can go only after the row of its saga'
            using errcode = 'restrict_violation', table = tg_table_name;
    end if;
    return old;
end;
$$;

create trigger orders_outlive_their_saga
    before delete on orders
    for each row
    execute function refuse_while_order_has_saga();

-- What waits to be applied.
create table order_settings (
    staged_at timestamptz not null,
    kind      text        not null primary key check (kind in ('services', 'timeouts')),
    staged    text        not null
);

-- The log in the words of orders: a call is about to be made (U), succeeded (S), failed (F), was rolled back (R), could
-- not be rolled back (RF), and all of it is done (D).
create view transaction_log as
select
    e.saga_id as tx_id,
    e.seq,
    o.order_id,
    case e.type when 'saga.compensated' then null else e.step end as service,
    case e.type
        when 'step.started' then 'U'
        when 'step.succeeded' then 'S'
        when 'step.failed' then 'F'
        when 'step.timed_out' then 'F'
        when 'step.compensated' then 'R'
        when 'step.compensation_failed' then 'RF'
        when 'saga.compensated' then 'D'
    end as status,
    e.at,
    -- Only of what is an error: no service's result is read here, since a NUL character in it cannot be shown as text.
    -- Nor can one in the code of an error, which is a service's word, too: it is marked.
    case
        when e.type in ('step.failed', 'step.timed_out', 'step.compensation_failed')
            then regexp_replace(e.data, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g')::json #>> '{error,message}'
    end as error
from orders o
    join saga_events e on e.saga_id = o.tx_id
where e.type in (
    'step.started', 'step.succeeded', 'step.failed', 'step.timed_out', 'step.compensated',
    'step.compensation_failed', 'saga.compensated'
);
