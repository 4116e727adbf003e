-- Jobs of sagas and lifecycles whose lease has expired.
select id, saga_id, queue, subject, payload, status, token, until, attempts, expiries, last_error
from jobs
where
    status = 'Leased' and queue = ?1 and until <= ?2
    and id not in (select cast(item as integer) from parked_items where area = 'jobs' and retry_at > ?2)
