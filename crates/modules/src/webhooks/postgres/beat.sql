-- Renews the row of a node that hands out attempts, and then removes those that nobody renewed. Gives those that counted
-- before that, and this one if it was there. A row that is being renewed at this moment is not waited for.
with
here as (
    insert into webhook_senders (seen_at, id, node)
    values (clock(), $1, $2)
    on conflict (id) do update set seen_at = excluded.seen_at
    returning id
),
gone as (
    delete from webhook_senders
    where id in (
        select stale.id
        from here
            join webhook_senders as stale on stale.id <> here.id
        where stale.seen_at <= clock() - $3::bigint * interval '1 millisecond'
        for update of stale skip locked
    )
)
select id
from webhook_senders
where id = $1 or seen_at > clock() - $3::bigint * interval '1 millisecond'
