update lifecycle_declared as d
set staged = null, changed_at = $2
from lifecycle_declared as was
where d.name = $1 and was.name = d.name and was.staged is not null
returning was.staged
