-- The oldest due jobs of a queue. A paused saga starts nothing: its jobs are not leased.
select id, saga_id, queue, subject, payload, status, token, until, attempts, expiries, last_error
from jobs
where
    status = 'Pending' and lane is null and queue = ?1 and until <= ?2
    and id not in (select cast(item as integer) from parked_items where area = 'jobs' and retry_at > ?2)
    and (
        substr(?1, 1, 5) <> 'work/'
        or not exists (
            select 1
            from sagas
            where sagas.id = jobs.saga_id and sagas.paused and sagas.status in ('pending', 'running', 'compensating')
        )
    )
order by until, id
limit ?3
