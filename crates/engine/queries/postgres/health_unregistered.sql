-- What nobody runs though it could go on: due and unowned, or left behind by a life that is over; of each version no more than
-- people care to count.
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
select definition, version, sum(sagas)::bigint as sagas
from (
    select definitions.name as definition, definitions.version, due.sagas
    from definitions
        cross join lateral (
            select count(*) as sagas
            from (
                select 1
                from sagas
                where owner is null
                    and wake_at is not null
                    and definition = definitions.name
                    and version = definitions.version
                    and wake_at <= clock()
                order by definition, version, wake_at
                limit $1
            ) as few
        ) as due
    union all
    select owners.definition, owners.version, left_behind.sagas
    from owners
        cross join lateral (
            select count(*) as sagas
            from (
                select 1
                from sagas
                where owner is not null
                    and definition = owners.definition
                    and version = owners.version
                    and owner = owners.owner
                limit $1
            ) as few
        ) as left_behind
    where owners.owner not in (
        select epoch from nodes where heartbeat_at + lease_ms * interval '1 ms' > clock()
    )
) as waiting
group by definition, version
having sum(sagas) > 0
order by definition, version
