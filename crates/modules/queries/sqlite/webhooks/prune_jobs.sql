-- Every job that ended has left an attempt.
delete from jobs
where
    id in (
        select job_id
        from webhook_attempts
        where saga_id in (select value from json_each(?1))
    )
    and delivery_id is not null
returning id
