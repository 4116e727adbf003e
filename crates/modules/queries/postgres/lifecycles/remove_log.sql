delete from saga_events
where saga_id in (select id::uuid from json_array_elements_text($1::text::json) as chosen (id))
returning 1
