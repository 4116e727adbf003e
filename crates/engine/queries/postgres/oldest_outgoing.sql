-- The oldest of each status that is not settled; numbers and times rise together.
select min(created_at) as created_at
from (
    select * from (select created_at from outbox where status = 'pending' order by id limit 1) as pending
    union all
    select * from (select created_at from outbox where status = 'sending' order by id limit 1) as sending
    union all
    select * from (select created_at from outbox where status = 'failed' order by id limit 1) as failed
) as oldest
