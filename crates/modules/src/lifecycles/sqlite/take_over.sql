-- A file has one process: whatever is held was held by one that is gone, which interrupted it.
update lifecycles
set due_at = ?1, holder = null, interruptions = interruptions + 1
where due_at is not null and holder is not null
