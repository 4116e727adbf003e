delete from webhook_delivery_sagas
where id in (select value from json_each(?1))
returning event_id
