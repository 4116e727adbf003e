-- Parks an item for a minute, and for twice as long each time it is rejected again, up to an hour.
insert into parked_items as p (area, item, reason, attempts, parked_at, retry_at)
values ($1, $2, $3, 1, clock(), clock() + interval '1 minute')
on conflict (area, item) do update
set reason = excluded.reason,
    attempts = p.attempts + 1,
    parked_at = excluded.parked_at,
    retry_at = excluded.parked_at
        + least(interval '1 hour', interval '1 minute' * (1 << least(p.attempts, 6)))
