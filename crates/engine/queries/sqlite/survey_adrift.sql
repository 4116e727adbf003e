-- What nothing will ever move. The index begins with such sagas, so there is next to nothing to read.
select id, definition, version, status, paused, failed_step, owner, wake_at, correlation_id, created_at, updated_at
from sagas indexed by sagas_adrift
where owner is null
    and wake_at is null
    and paused = 0
    and (status = 'pending' or status = 'running' or status = 'compensating')
    and not exists (
        select 1 from jobs where saga_id = sagas.id and status in ('Pending', 'Leased')
    )
order by definition, version, id
limit ?1
