insert or fail into idempotency_ledger (scope, key, digest, saga_id, at)
values (?1, ?2, ?3, ?4, ?5)
