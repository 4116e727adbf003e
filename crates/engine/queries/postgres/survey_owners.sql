-- From one owner to the next along the index: what it costs is the number of owners, not of sagas.
with recursive
    found (definition, version, owner) as (
        (
            select definition, version, owner
            from sagas
            where owner is not null
            order by definition, version, owner
            limit 1
        )
        union all
        select next.definition, next.version, next.owner
        from found
            cross join lateral (
                select definition, version, owner
                from sagas
                where owner is not null
                    and (definition, version, owner) > (found.definition, found.version, found.owner)
                order by definition, version, owner
                limit 1
            ) as next
    )
select
    found.definition,
    found.version,
    found.owner,
    nodes.name,
    (extract(epoch from clock() - nodes.heartbeat_at) * 1000000)::bigint - nodes.lease_ms * 1000 as late
from (select definition, version, owner from found limit $1) as found
    left join nodes on nodes.epoch = found.owner
order by found.definition, found.version, found.owner
