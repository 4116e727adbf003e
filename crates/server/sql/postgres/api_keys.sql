-- API keys.

-- name: insert
insert into api_keys (hash, role, name, last_four, created_at, expires_at)
values ($1, $2, $3, $4, $5, $6)
returning id

-- name: list
select id, hash, role, name, last_four, created_at, expires_at, revoked_at
from api_keys
order by id

-- name: revoke
update api_keys set revoked_at = $2
where id = $1 and revoked_at is null
