-- Nothing when another version is staged than the one that is meant.
with
found as (
    select name, staged
    from declared
    where name = $1 and staged = coalesce($2::integer, staged)
    for update
),
discarded as (
    update declared
    set staged = null, changed_at = clock()
    from found
    where declared.name = found.name
)
select staged
from found
