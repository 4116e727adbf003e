-- Whatever was seen before: what has been taken up again since, or has something due, stays. Nobody is waited for.
with
old as (
    select s.id
    from sagas s
    where s.id = any ($1::uuid[])
        and s.status = $2
        and s.updated_at < clock() - $3::bigint * interval '1 millisecond'
        and not exists (select from jobs j where j.saga_id = s.id and j.status in ('Pending', 'Leased'))
    for update skip locked
)
delete from sagas
using old
where sagas.id = old.id
returning sagas.id
