insert into backstitch.api_keys (hash, role, name, last_four, created_at, expires_at)
values ($1, $2, $3, $4, $5, $6)
returning id
