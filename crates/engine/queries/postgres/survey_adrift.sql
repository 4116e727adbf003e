-- What nothing will ever move. The index holds such sagas and no other, so there is next to nothing to read.
select id, definition, version, status, paused, failed_step, owner, wake_at, correlation_id, created_at, updated_at
from sagas
where owner is null
    and wake_at is null
    and not paused
    and status in ('pending', 'running', 'compensating')
    and not exists (
        select 1 from jobs where saga_id = sagas.id and status in ('Pending', 'Leased')
    )
order by id
limit $1
