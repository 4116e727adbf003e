-- What an unfinished retry stands for is kept, and a retry for as long as what it stands for: asked for again, it is found.
delete from outbox
where id in (
    select o.id
    from outbox o
    where o.status in ('succeeded', 'aborted')
        and o.status = ?1
        and o.updated_at < ?2
        and not exists (
            select 1 from outbox r where r.retry_of = o.id and r.status in ('pending', 'sending', 'failed')
        )
        and not exists (select 1 from outbox a where a.id = o.retry_of)
    order by o.updated_at
    limit ?3
)
