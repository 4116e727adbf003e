with
expired as (
    select id
    from outbox
    where
        expires_at is not null and status in ('pending', 'failed') and expires_at <= clock()
        and id <> all (array(select item::bigint from parked_items where area = 'outbox' and retry_at > clock()))
        and ($5::bigint[] is null or id = any ($5))
    order by expires_at
    limit $1
    for update skip locked
),
aborted as (
    update outbox
    set status = 'aborted', last_error_code = $2, last_error_msg = $3, due_at = null, updated_at = clock()
    from expired
    where outbox.id = expired.id
    returning
        outbox.topic, outbox.idempotency_key, outbox.ordering_key, coalesce(ordering_scope, topic) as ordering_scope,
        attempts, lock = 0 and not counted as uncounted
),
told as (
    update idempotency_ledger
    set state = 'failed', result = $4
    from aborted
    where scope = 'outbox/' || aborted.topic and key = aborted.idempotency_key
)
select ordering_scope, ordering_key, topic, idempotency_key, attempts, uncounted
from aborted
