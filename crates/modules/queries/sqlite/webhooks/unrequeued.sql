-- How many wait for somebody to requeue them, counted no further than 10,000 (`COUNTED`).
select count(*)
from (
    select saga_id
    from waiting_dead_letters
    limit 10000
) as waiting
