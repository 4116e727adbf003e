-- What no living process has, along three indexes, none of which holds a saga that only waits for its time: what a life that
-- is over left behind, what has been due and nobody's for as long, and what nothing will ever move. Of each a thousand are looked
-- at, so that a backlog costs no more than that.
with recursive
    owners (definition, version, owner) as (
        (
            select definition, version, owner
            from sagas
            where owner is not null
            order by definition, version, owner
            limit 1
        )
        union all
        select next.definition, next.version, next.owner
        from owners
            cross join lateral (
                select definition, version, owner
                from sagas
                where owner is not null
                    and (definition, version, owner) > (owners.definition, owners.version, owners.owner)
                order by definition, version, owner
                limit 1
            ) as next
    )
select id, definition, version, status, paused, failed_step, owner, wake_at, correlation_id, created_at, updated_at
from (
    (
        select left_behind.*
        from owners
            cross join lateral (
                select id, definition, version, status, paused, failed_step, owner, wake_at, correlation_id, created_at, updated_at
                from sagas
                where owner is not null
                    and definition = owners.definition
                    and version = owners.version
                    and owner = owners.owner
                limit 1000
            ) as left_behind
        -- Until the end of its lease it had somebody.
        where owners.owner not in (
            select epoch from nodes where heartbeat_at + lease_ms * interval '1 ms' > least($1, clock())
            union all
            -- Those who were struck off.
            select substr(what, 6)::bigint from turns where starts_with(what, 'node/') and until > $1
        )
        limit 1000
    )
    union all
    (
        select due.*
        from definitions
            cross join lateral (
                select id, definition, version, status, paused, failed_step, owner, wake_at, correlation_id, created_at, updated_at
                from sagas
                where owner is null
                    and wake_at is not null
                    and definition = definitions.name
                    and version = definitions.version
                    and wake_at <= $1
                order by definition, version, wake_at
                limit 1000
            ) as due
        limit 1000
    )
    union all
    (
        select id, definition, version, status, paused, failed_step, owner, wake_at, correlation_id, created_at, updated_at
        from sagas
        where owner is null
            and wake_at is null
            and paused = false
            and status in ('pending', 'running', 'compensating')
        order by definition, version, id
        limit 1000
    )
) as found
where updated_at <= $1 and not paused
order by updated_at, id
limit $2
