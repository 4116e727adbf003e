select name, active, staged, changed_at
from lifecycle_declared
where $1::text is null or name = $1
order by name
