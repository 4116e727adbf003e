delete from webhook_attempts
where saga_id in (select id::bigint from json_array_elements_text($1::text::json) as chosen (id))
returning job_id
