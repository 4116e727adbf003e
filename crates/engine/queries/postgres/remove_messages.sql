-- One that was asked for again since it was looked at stays. Nobody is waited for.
with
old as (
    select o.id
    from outbox o
    where o.id = any ($1::bigint[])
        and o.status in ('succeeded', 'aborted')
        and not exists (select from outbox r where r.retry_of = o.id and r.status in ('pending', 'sending', 'failed'))
    for update skip locked
)
delete from outbox
using old
where outbox.id = old.id
returning outbox.id
