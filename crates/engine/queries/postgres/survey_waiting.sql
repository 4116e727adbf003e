-- From one definition to the next along the index, each with how long the first of its sagas that are nobody's has been due,
-- in microseconds: what it costs is the number of definitions, not of sagas.
with recursive
    found (definition, version, wake_at) as (
        (
            select definition, version, wake_at
            from sagas
            where owner is null and wake_at is not null
            order by definition, version, wake_at
            limit 1
        )
        union all
        select next.definition, next.version, next.wake_at
        from found
            cross join lateral (
                select definition, version, wake_at
                from sagas
                where owner is null
                    and wake_at is not null
                    and (definition, version) > (found.definition, found.version)
                order by definition, version, wake_at
                limit 1
            ) as next
    )
select definition, version, (extract(epoch from clock() - wake_at) * 1000000)::bigint as late
from found
limit $1
