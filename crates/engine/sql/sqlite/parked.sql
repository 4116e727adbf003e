-- Items that the database rejected, parked until they are tried again.

-- part: item
area, item, reason, attempts, parked_at, retry_at

-- part: chosen
-- What is listed is what is tried again.
retry_at > ?1
and (?2 is null or area = ?2)
and (?3 is null or item = ?3)
and (?4 is null or instr(lower(reason), lower(?4)) > 0)
and (?5 is null or parked_at >= ?5)
and (?6 is null or retry_at < ?6)
and (?7 is null or (area, item) > (?7, ?8))

-- name: park
-- Parks an item for a minute, and for twice as long each time it is rejected again, up to an hour.
insert into parked_items (area, item, reason, attempts, parked_at, retry_at)
values (?1, ?2, ?3, 1, ?4, ?4 + 60000000)
on conflict (area, item) do update
set reason = excluded.reason,
    attempts = attempts + 1,
    parked_at = excluded.parked_at,
    retry_at = excluded.parked_at + min(3600000000, 60000000 * (1 << min(attempts, 6)))

-- name: list
-- Parked items, by area and item: an item that is parked anew keeps its place.
select {item}
from parked_items
where {chosen}
order by area, item
limit ?9

-- name: longest
-- Parked items, longest parked first: each rejection doubles the wait, so an item with more of them has been parked for longer.
select {item}
from parked_items
where retry_at > ?1 and (?2 is null or area = ?2)
order by attempts desc, parked_at, area, item
limit ?3

-- name: retry
-- The next batch tries these again.
update parked_items
set retry_at = ?1
where {chosen}
returning {item}

-- name: forget
-- An item that was not rejected again for a day is no longer known.
delete from parked_items
where retry_at < ?1 - 86400000000
