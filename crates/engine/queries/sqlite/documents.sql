-- Of one name, or of all. Cross join: from the names to their versions, never the other way round.
select d.name, d.active, d.staged, d.changed_at, v.version, v.created_at
from documents d
    cross join document_versions v
where d.kind = ?1 and v.kind = d.kind and v.name = d.name and (?2 is null or d.name = ?2)
order by d.name, v.version
