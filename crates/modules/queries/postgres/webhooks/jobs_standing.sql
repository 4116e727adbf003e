-- Where the chosen jobs stand.
select id, token, status, last_error
from jobs
where id in (select id::bigint from json_array_elements_text($1::text::json) as chosen (id))
