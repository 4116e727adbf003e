insert into lifecycle_machines (name, version, body, created_at)
select ?1, ?2, ?3, ?4
where not exists (select 1 from lifecycle_machines where name = ?1 and version = ?2)
returning version
