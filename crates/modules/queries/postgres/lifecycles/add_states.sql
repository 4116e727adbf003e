insert into lifecycle_states (machine, version, state, place, terminal)
select $1::text, $2::integer, s.state ->> 'state', s.place - 1, (s.state ->> 'terminal')::boolean
from json_array_elements($3::text::json) with ordinality as s (state, place)
