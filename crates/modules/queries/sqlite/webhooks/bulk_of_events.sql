-- How long these events are.
select e.id, octet_length(e.payload)
from json_each(?1) as chosen
    cross join webhook_events as e on e.id = chosen.value
order by e.id
