update lifecycle_declared
set active = staged, staged = null, changed_at = $3
where name = $1 and staged is not null and ($2::integer is null or staged = $2)
returning active
