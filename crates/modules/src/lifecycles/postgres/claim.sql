-- Actions that are due become this process's for a while. One whose holder was not heard of was interrupted.
with due as materialized (
    select id
    from lifecycles
    where
        due_at <= clock() and id <> all ($4::uuid[]) and machine <> all ($5::text[])
        and id <> all (array(select item::uuid from parked_items where area = 'lifecycle_actions' and retry_at > clock()))
        and ($6::uuid[] is null or id = any ($6))
    order by due_at
    limit $1
    for update skip locked
)
update lifecycles as l
set token = l.token + 1,
    interruptions = l.interruptions + (l.holder is not null)::integer,
    holder = $2,
    due_at = clock() + $3::bigint * interval '1 millisecond'
from due
where l.id = due.id
