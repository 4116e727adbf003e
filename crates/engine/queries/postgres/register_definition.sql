insert into definitions (name, version, fingerprint, body)
values ($1, $2, $3, $4)
on conflict do nothing
