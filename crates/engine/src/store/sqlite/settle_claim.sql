update idempotency_ledger set state = ?3, result = ?4 where scope = ?1 and key = ?2
