select scope, key, digest, state, result, at, saga_id
from idempotency_ledger
where saga_id = any ($1::uuid[])
order by scope, key
