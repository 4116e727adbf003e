-- When the oldest message was written that is not settled, and the one that about one in twenty of those that wait is older
-- than: numbers and times rise together, so a twentieth of the way through the numbers is near enough, however many there are.
select
    (
        select min(created_at)
        from outbox
        where id in (
            (select min(id) from outbox where status = 'pending'),
            (select min(id) from outbox where status = 'sending'),
            (select min(id) from outbox where status = 'failed')
        )
    ) as oldest,
    (
        select created_at
        from outbox
        where status = 'pending'
            and id >= (select min(id) from outbox where status = 'pending') + (
                (select max(id) from outbox where status = 'pending')
                - (select min(id) from outbox where status = 'pending')
            ) / 20
        order by id
        limit 1
    ) as old
