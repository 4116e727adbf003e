-- When the oldest message was written that is not settled, and the one that one in twenty of those that wait is older than.
-- Numbers and times rise together. A long queue is counted up to a bound; beyond it the second is taken for older than it
-- is.
select
    (
        select min(created_at)
        from (
            select * from (select created_at from outbox where status = 'pending' order by id limit 1) as pending
            union all
            select * from (select created_at from outbox where status = 'sending' order by id limit 1) as sending
            union all
            select * from (select created_at from outbox where status = 'failed' order by id limit 1) as failed
        ) as oldest
    ) as oldest,
    (
        select created_at
        from outbox
        where status = 'pending'
        order by id
        limit 1
        offset (select count(*) / 20 from (select 1 from outbox where status = 'pending' limit 200000) as counted)
    ) as old
