insert into document_versions (kind, name, version, fingerprint, body, created_at)
select ?1, ?2, ?3, ?4, ?5, ?6
where not exists (select 1 from document_versions where kind = ?1 and name = ?2 and version = ?3)
