delete from lifecycle_dead_letters
where id in (select id::bigint from json_array_elements_text($1::text::json) as chosen (id))
returning id
