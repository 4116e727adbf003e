-- Nothing when another version is staged than the one that is meant.
with
applied as (
    update declared
    set active = staged, staged = null, changed_at = clock()
    where name = $1 and staged = coalesce($2::integer, staged)
    returning name, active
)
select active, pg_notify('backstitch_definition', name)::text as told
from applied
