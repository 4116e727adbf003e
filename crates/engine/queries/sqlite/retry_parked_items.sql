-- The next batch tries these again. The conditions are those of parked_items.sql: what is listed is what is tried.
update parked_items
set retry_at = ?1
where
    retry_at > ?1
    and (?2 is null or area = ?2)
    and (?3 is null or item = ?3)
    and (?4 is null or instr(lower(reason), lower(?4)) > 0)
    and (?5 is null or parked_at >= ?5)
    and (?6 is null or retry_at < ?6)
    and (?7 is null or (area, item) > (?7, ?8))
returning area, item, reason, attempts, parked_at, retry_at
