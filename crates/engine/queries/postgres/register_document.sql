insert into document_versions (kind, name, version, fingerprint, body)
values ($1, $2, $3, $4, $5)
on conflict do nothing
