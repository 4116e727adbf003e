-- Nothing when the name belongs to a program's code, or another process has just added this version.
insert into document_versions (kind, name, version, fingerprint, body, created_at)
select ?1, ?2, ?3, ?4, ?5, ?6
where
    ?3 = (select coalesce(max(version), 0) + 1 from document_versions where kind = ?1 and name = ?2)
    and (?3 = 1 or exists (select 1 from documents where kind = ?1 and name = ?2))
returning version
