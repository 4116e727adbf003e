-- How many wait for somebody to requeue them, counted no further than 10,000 (`COUNTED`), and along an index: rows of the table that
-- were given up are passed over there.
select count(*)
from (
    select subscription_id
    from waiting_dead_letters
    order by subscription_id, saga_id
    limit 10000
) as waiting
