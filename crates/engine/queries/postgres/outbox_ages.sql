-- When the oldest message was written that is not settled, and the one that one in twenty of these is older than. Numbers
-- and times rise together, so the place among them is found by numbers alone, along the index. Of more than 10,000 only the
-- oldest 10,000 are counted (`AGED`), so that no queue is too long to look at: the answer is then too old rather than too new.
with
unsent as (
    select id from (select id from outbox where status = 'pending' order by id limit 10000) as pending
    union all
    select id from (select id from outbox where status = 'sending' order by id limit 10000) as sending
    union all
    select id from (select id from outbox where status = 'failed' order by id limit 10000) as failed
),
counted as (
    select id from unsent order by id limit 10000
)
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
        where id = (
            select id from counted order by id limit 1 offset (select count(*) / 20 from counted)
        )
    ) as old
