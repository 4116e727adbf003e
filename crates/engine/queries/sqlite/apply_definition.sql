update declared
set active = staged, staged = null, changed_at = ?2
where name = ?1 and staged is not null
returning active
