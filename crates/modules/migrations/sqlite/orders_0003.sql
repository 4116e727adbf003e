-- `INSERT OR REPLACE` fires no delete trigger, so a key that exists is refused.

create trigger orders_refuse_replace before insert on orders
when exists (select 1 from orders where tx_id = new.tx_id)
begin
    select raise(fail, 'an order is kept as it was confirmed: it is never replaced');
end;
