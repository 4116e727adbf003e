-- Of one name, or of all.
select d.name, d.active, d.staged, d.changed_at, v.version, v.created_at
from documents d
    join document_versions v on v.kind = d.kind and v.name = d.name
where d.kind = $1 and ($2::text is null or d.name = $2)
order by d.name, v.version
