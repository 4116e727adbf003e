update lifecycle_declared as d
set staged = null, changed_at = $3
from lifecycle_declared as was
where d.name = $1 and was.name = d.name and was.staged is not null and ($2::integer is null or was.staged = $2)
returning was.staged
