with
abandoned as (
    select id
    from outbox
    where
        locked_at is not null and leased_until <= clock()
        and id <> all (array(select item::bigint from parked_items where area = 'outbox' and retry_at > clock()))
        and ($2::bigint[] is null or id = any ($2))
    order by locked_at
    limit $1
    for update skip locked
)
update outbox
set status = case when attempts = 0 then 'pending' else 'failed' end, in_doubt = true, due_at = clock(),
    locked_by = null, locked_at = null, updated_at = clock()
from abandoned
where outbox.id = abandoned.id
returning outbox.id
