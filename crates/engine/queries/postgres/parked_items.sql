-- Parked items, by area and item: an item that is parked anew keeps its place.
select area, item, reason, attempts, parked_at, retry_at
from parked_items
where
    retry_at > clock()
    and ($1::text is null or area = $1)
    and ($2::text is null or item = $2)
    and ($3::text is null or position(lower($3) in lower(reason)) > 0)
    and ($4::timestamptz is null or parked_at >= $4)
    and ($5::timestamptz is null or retry_at < $5)
    and ($6::text is null or (area, item) > ($6, $7::text))
order by area, item
limit $8
