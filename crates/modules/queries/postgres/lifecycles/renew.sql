-- Whoever performs an action is alive. A claim that somebody else has taken over stays theirs, and what is decided about at
-- this moment is renewed by that, or the next time.
with held as materialized (
    select l.id
    from lifecycles as l
        join jsonb_to_recordset($1::text::jsonb) as h (id uuid, token bigint) on l.id = h.id and l.token = h.token
    where l.holder is not null
    order by l.machine, l.key
    for update of l skip locked
)
update lifecycles as l
set due_at = clock() + $2::bigint * interval '1 millisecond'
from held
where l.id = held.id
returning l.id
