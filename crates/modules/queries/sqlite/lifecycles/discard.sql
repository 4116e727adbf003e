-- A row that is returned is as it is afterwards: what was staged is read beside it.
update lifecycle_declared
set staged = null, changed_at = ?3
where name = ?1 and staged is not null and (?2 is null or staged = ?2)
returning (select max(version) from lifecycle_machines where lifecycle_machines.name = lifecycle_declared.name)
