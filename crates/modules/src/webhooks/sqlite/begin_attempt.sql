-- The next attempt begins, or the delivery is dead-lettered instead.
update or fail webhook_delivery_sagas
set status = ?4, job_id = ?5, final_error_code = ?6, updated_at = ?7
where id = ?1 and status = ?2 and job_id is ?3 and next_attempt_at <= ?7
