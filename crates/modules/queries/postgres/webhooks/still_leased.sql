-- Those of the chosen jobs that somebody has.
select id, token
from jobs
where
    id in (select id::bigint from json_array_elements_text($1::text::json) as chosen (id))
    and status = 'Leased'
