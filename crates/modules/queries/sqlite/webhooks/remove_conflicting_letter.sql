-- Removes the dead letter of a delivery that is not dead-lettered. Only another program inserts
-- such a dead letter.
delete from dead_letters
where
    saga_id = ?1
    and not exists (
        select 1
        from webhook_delivery_sagas as s
        where s.id = dead_letters.saga_id and s.status = 'DeadLettered'
    )
returning
    saga_id, event_id, subscription_id, attempt_count, final_error_code, webhook_id, created_at,
    null as requeued_as
