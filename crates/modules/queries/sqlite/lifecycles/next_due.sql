-- In how many microseconds. What is held is being performed.
select min(due_at) - ?1
from lifecycles
where due_at is not null and holder is null
