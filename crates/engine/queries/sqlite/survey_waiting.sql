-- The next definition after one, and when the first of its sagas that are nobody's is due, along the index.
select definition, version, wake_at
from sagas
where owner is null and wake_at is not null and (definition, version) > (?1, ?2)
order by definition, version, wake_at
limit 1
