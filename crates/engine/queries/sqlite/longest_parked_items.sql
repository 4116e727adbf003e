-- Parked items, longest parked first: each rejection doubles the wait, so an item with more of them has been parked for longer.
select area, item, reason, attempts, parked_at, retry_at
from parked_items
where retry_at > ?1 and (?2 is null or area = ?2)
order by attempts desc, parked_at, area, item
limit ?3
