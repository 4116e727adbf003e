update outbox
set status = case when attempts = 0 then 'pending' else 'failed' end, in_doubt = 1, due_at = ?1, locked_by = null,
    locked_at = null, updated_at = ?1
where id in (
    select id
    from outbox
    where
        locked_at is not null and leased_until <= ?1
        and id not in (select cast(item as integer) from parked_items where area = 'outbox' and retry_at > ?1)
        and (?3 is null or id = ?3)
    order by locked_at
    limit ?2
)
