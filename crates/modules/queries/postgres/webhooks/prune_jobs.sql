-- Every job that ended has left an attempt.
delete from jobs
where
    id in (
        select job_id
        from webhook_attempts
        where saga_id in (select id::bigint from json_array_elements_text($1::text::json) as chosen (id))
    )
    and delivery_id is not null
returning id
