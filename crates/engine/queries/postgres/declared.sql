-- Of one name, or of all.
select d.name, d.active, d.staged, v.version, v.created_at
from declared d
    join definitions v on v.name = d.name
where $1::text is null or d.name = $1
order by d.name, v.version
