-- In how many microseconds. What is held is being performed.
select min(due_at) - ?1
from lifecycles
where
    due_at is not null and holder is null
    and lower(hex(id)) not in (
        select replace(item, '-', '') from parked_items where area = 'lifecycle_actions' and retry_at > ?1
    )
