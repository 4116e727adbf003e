select scope, key, digest, state, result, at, saga_id
from idempotency_ledger
where saga_id in (select unhex(value) from json_each(?1))
order by scope, key
