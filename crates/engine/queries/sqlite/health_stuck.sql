-- What no living process has, along three indexes, none of which holds a saga that only waits for its time: what a life that
-- is over left behind, what has been due and nobody's for as long, and what nothing will ever move. Of each a thousand are looked
-- at, so that a backlog costs no more than that.
select id, definition, version, status, paused, failed_step, owner, wake_at, correlation_id, created_at, updated_at
from (
    select *
    from (
        select
            sagas.id, sagas.definition, sagas.version, sagas.status, sagas.paused, sagas.failed_step, sagas.owner, sagas.wake_at,
            sagas.correlation_id, sagas.created_at, sagas.updated_at
        from definitions
            cross join sagas indexed by sagas_owned
                on sagas.definition = definitions.name and sagas.version = definitions.version
        where sagas.owner is not null
            and sagas.owner < coalesce((select min(epoch) from nodes), 9223372036854775807)
            -- Whoever has the file now has not had it for longer.
            and not exists (select 1 from nodes where started_at > ?1)
        limit 1000
    )
    union all
    select *
    from (
        select
            sagas.id, sagas.definition, sagas.version, sagas.status, sagas.paused, sagas.failed_step, sagas.owner, sagas.wake_at,
            sagas.correlation_id, sagas.created_at, sagas.updated_at
        from definitions
            cross join sagas indexed by sagas_unowned_due
                on sagas.definition = definitions.name and sagas.version = definitions.version
        where sagas.owner is null and sagas.wake_at is not null and sagas.wake_at <= ?1
        limit 1000
    )
    union all
    select *
    from (
        select id, definition, version, status, paused, failed_step, owner, wake_at, correlation_id, created_at, updated_at
        from sagas indexed by sagas_adrift
        where owner is null
            and wake_at is null
            and paused = 0
            and (status = 'pending' or status = 'running' or status = 'compensating')
        order by definition, version, id
        limit 1000
    )
)
where updated_at <= ?1 and paused = 0
order by updated_at, id
limit ?2
