select id, hash, role, name, last_four, created_at, expires_at, revoked_at
from backstitch.api_keys
order by id
