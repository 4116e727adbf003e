-- Along three indexes, none of which holds a saga that only waits for its time: what somebody has, what is due and nobody's, and
-- what nothing will ever move.
select id, definition, version, status, paused, failed_step, owner, wake_at, correlation_id, created_at, updated_at
from sagas
where owner is not null
    and updated_at <= $1
    and not paused
    and (wake_at is null or wake_at <= clock())
    and status in ('pending', 'running', 'compensating')
union all
select
    sagas.id, sagas.definition, sagas.version, sagas.status, sagas.paused, sagas.failed_step, sagas.owner, sagas.wake_at,
    sagas.correlation_id, sagas.created_at, sagas.updated_at
from definitions
    join sagas on sagas.definition = definitions.name and sagas.version = definitions.version
where sagas.owner is null
    and sagas.wake_at is not null
    and sagas.wake_at <= clock()
    and sagas.updated_at <= $1
    and not sagas.paused
    and sagas.status in ('pending', 'running', 'compensating')
union all
select id, definition, version, status, paused, failed_step, owner, wake_at, correlation_id, created_at, updated_at
from sagas
where owner is null
    and wake_at is null
    and not paused
    and status in ('pending', 'running', 'compensating')
    and updated_at <= $1
order by updated_at, id
limit $2
