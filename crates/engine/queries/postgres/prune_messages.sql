-- What an unfinished retry stands for is kept, and a retry for as long as what it stands for: asked for again, it is found.
with
old as (
    select o.id
    from outbox o
    where o.status in ('succeeded', 'aborted')
        and o.status = $1
        and o.updated_at < clock() - $2::bigint * interval '1 millisecond'
        and not exists (
            select from outbox r where r.retry_of = o.id and r.status in ('pending', 'sending', 'failed')
        )
        and not exists (select from outbox a where a.id = o.retry_of)
    order by o.updated_at
    limit $3
    for update skip locked
)
delete from outbox
using old
where outbox.id = old.id
returning outbox.id
