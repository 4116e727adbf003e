-- The next batch tries these again. A named item counts also when its time has passed.
update parked_items
set retry_at = min(retry_at, ?1)
where
    (?2 is null or area = ?2)
    and (?3 is null or item = ?3)
    and (?3 is not null or retry_at > ?1)
returning area, item, reason, attempts, parked_at, retry_at
