select newest.id
from unnest($1::text[]) as asked (status)
    cross join lateral (
        select id
        from outbox
        where topic = $2 and status = asked.status and status <> 'sending' and id < $3
        order by id desc
        limit $4
    ) as newest
union all
-- The index of topics leaves these out: they are few, and soon something else.
(
    select id
    from outbox
    where status = 'sending' and 'sending' = any ($1::text[]) and topic = $2 and id < $3
    order by id desc
    limit $4
)
