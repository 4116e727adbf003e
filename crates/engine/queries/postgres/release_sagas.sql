-- In the order in which everybody locks them, so that no two wait for each other.
with
mine as (
    select id
    from sagas
    where owner is not null and owner = $1 and status in ('pending', 'running', 'compensating')
    order by id
    for no key update
),
struck as (
    delete from nodes where epoch = $1
)
update sagas
set owner = null, wake_at = clock()
from mine
where sagas.id = mine.id
