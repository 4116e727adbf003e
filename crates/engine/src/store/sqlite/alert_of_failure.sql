-- In the transaction that gives the job up.
insert into outbox (topic, idempotency_key, payload, due_at, created_at, updated_at)
select ?2, 'job:' || id, json_set(alert, '$.error', last_error), ?3, ?3, ?3
from jobs
where id = ?1
    and alert is not null
    and not exists (
        select 1
        from outbox
        where topic = ?2 and idempotency_key = 'job:' || jobs.id and retry_of is null
    )
