-- Parked items, longest parked first: each rejection doubles the wait, so an item with more of them has been parked for longer.
select area, item, reason, attempts, parked_at, retry_at
from parked_items
where retry_at > clock() and ($1::text is null or area = $1)
order by attempts desc, parked_at, area, item
limit $2
