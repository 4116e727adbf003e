-- An order goes with its saga, in the same transaction.

create trigger sagas_take_their_orders after delete on sagas
begin
    delete from orders where tx_id = old.id;
end;
