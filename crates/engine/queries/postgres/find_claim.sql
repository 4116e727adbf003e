select digest, saga_id, at
from backstitch.idempotency_ledger
where scope = $1 and key = $2
