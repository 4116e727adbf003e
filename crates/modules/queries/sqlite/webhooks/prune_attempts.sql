delete from webhook_attempts
where saga_id in (select value from json_each(?1))
returning job_id
