select
    m.version,
    m.created_at,
    (
        select count(*)
        from (
            select
            from lifecycles as l
            where l.machine = m.name and l.version = m.version and not l.ended and not l.abandoned
            order by l.machine, l.version
            limit $2
        ) as counted
    )
from document_versions as m
where m.kind = 'lifecycle' and m.name = $1
order by m.version
