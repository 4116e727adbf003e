delete from webhook_delivery_sagas
where id in (select id::bigint from json_array_elements_text($1::text::json) as chosen (id))
returning event_id
