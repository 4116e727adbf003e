-- All of them are over: what ends takes back what nobody waits for any more.
delete from jobs
where saga_id in (select id::uuid from json_array_elements_text($1::text::json) as chosen (id)) and status in ('Completed', 'Failed')
returning 1
