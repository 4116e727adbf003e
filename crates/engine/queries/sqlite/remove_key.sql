-- Its message is gone, and nobody has used it anew since.
delete from idempotency_ledger
where scope = ?1 and key = ?2 and saga_id is null and at = ?3
