select digest, saga_id, at
from idempotency_ledger
where scope = ?1 and key = ?2
