-- Nothing when another version is staged than the one that is expected.
update documents
set active = staged, staged = null, changed_at = ?4
where kind = ?1 and name = ?2 and staged = coalesce(?3, staged)
returning active
