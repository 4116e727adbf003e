-- Orders as they were confirmed, each written in the transaction that starts its saga.

create table orders (
    tx_id       blob    not null primary key check (length(tx_id) = 16),
    order_id    text    not null,
    customer_id text    not null,
    items       text    not null,
    amount      text    not null,
    created_at  integer not null
) strict, without rowid;

-- A confirmation may be sent twice: each one is a transaction of its own.
create index orders_order_id on orders (order_id, tx_id);

create trigger orders_never_change before update on orders
begin
    select raise(abort, 'an order is kept as it was confirmed: confirm it again to change it');
end;

create trigger orders_outlive_their_saga before delete on orders
when exists (select 1 from sagas where id = old.tx_id)
begin
    select raise(abort, 'an order is kept with its log: it can go only after the row of its saga');
end;

-- What waits to be applied.
create table order_settings (
    kind      text    not null primary key check (kind in ('services', 'timeouts')),
    staged    text    not null,
    staged_at integer not null
) strict, without rowid;

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
    -- Only of what is an error: nobody's result is read here.
    case
        when e.type in ('step.failed', 'step.timed_out', 'step.compensation_failed')
            then json_extract(e.data, '$.error.message')
    end as error
from orders o
    join saga_events e on e.saga_id = o.tx_id
where e.type in (
    'step.started', 'step.succeeded', 'step.failed', 'step.timed_out', 'step.compensated',
    'step.compensation_failed', 'saga.compensated'
);
