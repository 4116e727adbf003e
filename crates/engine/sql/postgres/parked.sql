-- Items that the database rejected, parked until they are tried again.

-- part: item
area, item, reason, attempts, parked_at, retry_at

-- part: chosen
-- What is listed is what is tried again.
retry_at > (select at from now)
and ($1::text is null or area = $1)
and ($2::text is null or item = $2)
and ($3::text is null or position(lower($3) in lower(reason)) > 0)
and ($4::timestamptz is null or parked_at >= $4)
and ($5::timestamptz is null or retry_at < $5)
and ($6::text is null or (area, item) > ($6, $7::text))

-- name: park
-- Parks an item for a minute, and for twice as long each time it is rejected again, up to an hour.
with
known as materialized (
    select coalesce(max(attempts), 0) as attempts
    from parked_items
    where area = $1 and item = $2
)
insert into parked_items (area, item, reason, attempts, parked_at, retry_at)
select
    $1, $2, $3, known.attempts + 1, clock(),
    clock() + least(interval '1 hour', interval '1 minute' * (1 << least(known.attempts, 6)))
from known
on conflict (area, item) do update
set reason = excluded.reason, attempts = excluded.attempts, parked_at = excluded.parked_at, retry_at = excluded.retry_at

-- name: list
-- Parked items, by area and item: an item that is parked anew keeps its place.
with
now as materialized (select clock() as at)
select {item}
from parked_items
where {chosen}
order by area, item
limit $8

-- name: longest
-- Parked items, longest parked first: each rejection doubles the wait, so an item with more of them has been parked for longer.
select {item}
from parked_items
where retry_at > clock() and ($1::text is null or area = $1)
order by attempts desc, parked_at, area, item
limit $2

-- name: retry
-- The next batch tries these again.
with
now as materialized (select clock() as at)
update parked_items
set retry_at = (select at from now)
where {chosen}
returning {item}

-- name: forget
-- An item that was not rejected again for a day is no longer known.
with
forgotten as materialized (select clock() - interval '1 day' as since)
delete from parked_items
where retry_at < (select since from forgotten)
