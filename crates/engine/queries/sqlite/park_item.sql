-- Parks an item for a minute, and for twice as long each time it is rejected again, up to an hour.
insert into parked_items (area, item, reason, attempts, parked_at, retry_at)
values (?1, ?2, ?3, 1, ?4, ?4 + 60000000)
on conflict (area, item) do update
set reason = excluded.reason,
    attempts = attempts + 1,
    parked_at = excluded.parked_at,
    retry_at = excluded.parked_at + min(3600000000, 60000000 * (1 << min(attempts, 6)))
