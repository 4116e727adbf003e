-- The status is named twice: the index of active jobs holds both.
update jobs
set status = 'Failed', last_error = 'withdrawn'
where saga_id = ?1 and subject = ?2 and status in ('Pending', 'Leased') and status = 'Pending'
