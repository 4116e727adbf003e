with
found as (
    select name, staged
    from declared
    where name = $1 and staged is not null
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
