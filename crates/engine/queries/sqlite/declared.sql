-- Of one name, or of all. Cross join: from the names to their versions, never the other way round.
select declared.name, declared.active, declared.staged, v.version, v.created_at
from declared
    cross join definitions v
where v.name = declared.name and (?1 is null or declared.name = ?1)
order by declared.name, v.version
