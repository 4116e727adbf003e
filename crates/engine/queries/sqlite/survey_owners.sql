-- The next owner after one, along the index: asked again and again, it costs the number of owners, not of sagas.
select definition, version, owner, (select name from nodes where epoch = owner) as name
from sagas
where owner is not null and (definition, version, owner) > (?1, ?2, ?3)
order by definition, version, owner
limit 1
