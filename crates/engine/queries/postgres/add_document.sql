-- Nothing when the name belongs to a program's code, or another process has just added this version.
insert into document_versions (kind, name, version, fingerprint, body)
select $1::text, $2::text, $3::integer, $4::bigint, $5::text
where
    $3 = (select coalesce(max(version), 0) + 1 from document_versions where kind = $1 and name = $2)
    and ($3 = 1 or exists (select from documents where kind = $1 and name = $2))
on conflict do nothing
returning version
