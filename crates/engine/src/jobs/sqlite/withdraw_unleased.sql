-- A job that no worker has leased, or whose lease has expired by a time. The status is named twice: the index of active jobs holds
-- both.
update or fail jobs
set status = 'Failed', last_error = ?3
where
    saga_id = ?1 and subject = ?2 and status in ('Pending', 'Leased')
    and (status = 'Pending' or until <= ?4)
returning token
