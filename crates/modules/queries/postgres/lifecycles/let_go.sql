-- Nobody performs these any more: they are due for whoever comes, after so many milliseconds.
with held as materialized (
    select l.id
    from lifecycles as l
        join jsonb_to_recordset($1::text::jsonb) as h (id uuid, token bigint) on l.id = h.id and l.token = h.token
    where l.holder is not null
    order by l.machine, l.key
    for update of l
)
update lifecycles as l
set due_at = clock() + $2::bigint * interval '1 millisecond', holder = null
from held
where l.id = held.id
