select
    m.version,
    m.created_at,
    (select count(*) from lifecycles as l where l.machine = m.name and l.version = m.version and not l.ended)
from lifecycle_machines as m
where m.name = ?1
order by m.version
