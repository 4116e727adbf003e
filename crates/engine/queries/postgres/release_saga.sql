-- Whoever posts locks the row first, so a message is either seen here or finds the saga let go.
with
released as (
    update sagas
    set owner = null, wake_at = $3
    where id = $1 and owner = $2 and inbox_seq = $4
        and (select max(seq) from saga_events where saga_id = $1) = $5
    returning id
),
answered as (
    delete from saga_inbox i
    using released r
    where i.saga_id = r.id and i.seq <= $4
)
select id
from released
