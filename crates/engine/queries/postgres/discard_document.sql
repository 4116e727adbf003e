-- Nothing when another version is staged than the one that is expected.
with
found as (
    select kind, name, staged
    from documents
    where kind = $1 and name = $2 and staged = coalesce($3::integer, staged)
    for update
),
discarded as (
    update documents
    set staged = null, changed_at = clock()
    from found
    where documents.kind = found.kind and documents.name = found.name
)
select staged
from found
