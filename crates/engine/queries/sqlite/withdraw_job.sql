-- One that no worker has: it waits, or its lease has run out.
update jobs
set status = 'Failed', last_error = 'withdrawn'
where
    saga_id = ?1 and subject = ?2 and status in ('Pending', 'Leased')
    and (status = 'Pending' or until <= ?3)
returning token
