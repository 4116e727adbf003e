-- How many were given up since a time, and since an earlier one until then, by subscription; the newest 10,000 are counted
-- (`COUNTED`), so that no growth is too fast to look at.
select
    subscription_id,
    sum(created_at > ?2) as lately,
    sum(created_at <= ?2) as before
from (
    select subscription_id, created_at
    from dead_letters
    where created_at > ?1
    order by created_at desc
    limit 10000
)
group by subscription_id
order by lately desc, subscription_id
limit ?3
