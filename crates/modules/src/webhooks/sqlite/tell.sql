insert or fail into job_results (job_id, delivery_id, at, retry_after_ms, error_code)
values (?1, ?2, ?3, ?4, ?5)
