insert into lifecycle_states (machine, version, state, place, terminal)
select ?1, ?2, value ->> 'state', key, value ->> 'terminal'
from json_each(?3)
