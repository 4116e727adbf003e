select
    m.version,
    m.created_at,
    (
        select count(*)
        from (
            select 1
            from lifecycles as l indexed by lifecycles_version
            where l.machine = m.name and l.version = m.version and not l.ended and not l.abandoned
            limit ?2
        )
    )
from document_versions as m
where m.kind = 'lifecycle' and m.name = ?1
order by m.version
