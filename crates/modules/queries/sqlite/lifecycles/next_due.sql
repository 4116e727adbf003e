-- In how many microseconds. What this process holds is being performed.
select min(due_at) - ?1
from lifecycles
where
    due_at is not null and (holder is null or lower(hex(id)) not in (select value from json_each(?2)))
    and lower(hex(id)) not in (
        select replace(item, '-', '') from parked_items where area = 'lifecycle_actions' and retry_at > ?1
    )
