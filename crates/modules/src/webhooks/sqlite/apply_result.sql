update or fail webhook_delivery_sagas
set status = ?3, attempt_count = ?4, next_attempt_at = ?5, final_error_code = ?6, updated_at = ?7
where id = ?1 and status = 'InProgress' and job_id = ?2
