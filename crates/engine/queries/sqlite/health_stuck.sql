-- Along three indexes, none of which holds a saga that only waits for its time: what somebody has, what is due and nobody's, and
-- what nothing will ever move.
select id, definition, version, status, paused, failed_step, owner, wake_at, correlation_id, created_at, updated_at
from sagas indexed by sagas_owned
where owner is not null
    and updated_at <= ?1
    and paused = 0
    and (wake_at is null or wake_at <= ?2)
    and (status = 'pending' or status = 'running' or status = 'compensating')
union all
select
    sagas.id, sagas.definition, sagas.version, sagas.status, sagas.paused, sagas.failed_step, sagas.owner, sagas.wake_at,
    sagas.correlation_id, sagas.created_at, sagas.updated_at
from definitions
    cross join sagas indexed by sagas_unowned_due
        on sagas.definition = definitions.name and sagas.version = definitions.version
where sagas.owner is null
    and sagas.wake_at is not null
    and sagas.wake_at <= ?2
    and sagas.updated_at <= ?1
    and sagas.paused = 0
    and (status = 'pending' or status = 'running' or status = 'compensating')
union all
select id, definition, version, status, paused, failed_step, owner, wake_at, correlation_id, created_at, updated_at
from sagas indexed by sagas_adrift
where owner is null
    and wake_at is null
    and paused = 0
    and (status = 'pending' or status = 'running' or status = 'compensating')
    and updated_at <= ?1
order by updated_at, id
limit ?3
