insert into definitions (name, version, fingerprint, body, created_at)
select ?1, ?2, ?3, ?4, ?5
where not exists (select 1 from definitions where name = ?1 and version = ?2)
