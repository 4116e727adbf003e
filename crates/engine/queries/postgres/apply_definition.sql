with
applied as (
    update declared
    set active = staged, staged = null, changed_at = clock()
    where name = $1 and staged is not null
    returning name, active
)
select active, pg_notify('backstitch_definition', name)::text as told
from applied
