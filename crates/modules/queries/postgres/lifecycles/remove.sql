-- What has ended does not change any more.
delete from lifecycles
where id in (select id::uuid from json_array_elements_text($1::text::json) as chosen (id)) and (ended or abandoned) and updated_at < $2
returning id
