-- A file has one process: whatever is held was held by one that is gone, which interrupted it.
update lifecycles
set due_at = ?1, holder = null, interruptions = interruptions + 1
where due_at is not null and holder is not null
    and lower(hex(id)) not in (
        select replace(item, '-', '') from parked_items where area = 'lifecycle_actions' and retry_at > ?1
    )
    and (?2 is null or lower(hex(id)) in (select value from json_each(?2)))
