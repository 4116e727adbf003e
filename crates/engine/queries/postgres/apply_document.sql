-- Nothing when another version is staged than the one that is expected.
with
applied as (
    update documents
    set active = staged, staged = null, changed_at = clock()
    where kind = $1 and name = $2 and staged = coalesce($3::integer, staged)
    returning kind, active
)
select active, pg_notify('backstitch_document', kind)::text as told
from applied
