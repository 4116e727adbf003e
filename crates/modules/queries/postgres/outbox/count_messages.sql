-- Said as a range of both columns, which only the index by status has: a server that took a rare status for a common one
-- would otherwise read the table from its beginning.
select count(*)
from (
    select
    from outbox
    where (status, id) > ($1, 0) and status <= $1
    order by status, id
    limit $2
) as counted
