-- One that was asked for again since it was looked at stays.
delete from outbox
where id in (select value from json_each(?1))
    and status in ('succeeded', 'aborted')
    and not exists (
        select 1 from outbox r where r.retry_of = outbox.id and r.status in ('pending', 'sending', 'failed')
    )
returning id
