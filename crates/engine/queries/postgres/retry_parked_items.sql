-- The next batch tries these again. The conditions are those of parked_items.sql: what is listed is what is tried.
update parked_items
set retry_at = clock()
where
    retry_at > clock()
    and ($1::text is null or area = $1)
    and ($2::text is null or item = $2)
    and ($3::text is null or position(lower($3) in lower(reason)) > 0)
    and ($4::timestamptz is null or parked_at >= $4)
    and ($5::timestamptz is null or retry_at < $5)
    and ($6::text is null or (area, item) > ($6, $7::text))
returning area, item, reason, attempts, parked_at, retry_at
