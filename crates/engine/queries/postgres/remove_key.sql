-- Their messages are gone, and nobody has used them anew since. Nobody is waited for.
with
old as (
    select l.scope, l.key
    from unnest($1::text[], $2::text[], $3::timestamptz[]) as k (scope, key, at)
        join idempotency_ledger l on l.scope = k.scope and l.key = k.key and l.at = k.at
    where l.saga_id is null
    for update of l skip locked
)
delete from idempotency_ledger
using old
where idempotency_ledger.scope = old.scope and idempotency_ledger.key = old.key
returning idempotency_ledger.at
