-- The next batch tries these again. A named item counts also when its time has passed.
update parked_items
set retry_at = least(retry_at, clock())
where
    ($1::text is null or area = $1)
    and ($2::text is null or item = $2)
    and ($2::text is not null or retry_at > clock())
returning area, item, reason, attempts, parked_at, retry_at
