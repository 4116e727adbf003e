-- Nothing when another version is staged than the one that is meant.
update declared
set active = staged, staged = null, changed_at = ?3
where name = ?1 and staged = coalesce(?2, staged)
returning active
