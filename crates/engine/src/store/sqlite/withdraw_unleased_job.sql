update jobs
set status = 'Failed', last_error = 'withdrawn'
where saga_id = ?1 and subject = ?2 and status = 'Pending'
