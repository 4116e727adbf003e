-- The next attempt begins, or the delivery is given up instead. One that has an active job gets no other.
update or fail webhook_delivery_sagas
set status = ?4, job_id = ?5, final_error_code = ?6, updated_at = ?7
where
    id = ?1 and status = ?2 and job_id is ?3 and next_attempt_at <= ?7
    and not exists (
        select 1
        from jobs
        where delivery_id = webhook_delivery_sagas.id and status in ('Pending', 'Leased')
    )
