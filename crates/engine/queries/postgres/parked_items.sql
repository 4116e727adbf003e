select area, item, reason, attempts, parked_at, retry_at
from parked_items
where retry_at > clock() and ($1::text is null or area = $1)
order by parked_at, area, item
limit $2
