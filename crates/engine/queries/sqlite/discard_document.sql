-- Nothing when another version is staged than the one that is expected. What is staged is always the highest version, and
-- `returning` sees the row as it is afterwards.
update documents
set staged = null, changed_at = ?4
where kind = ?1 and name = ?2 and staged = coalesce(?3, staged)
returning (
    select max(version)
    from document_versions
    where document_versions.kind = documents.kind and document_versions.name = documents.name
)
