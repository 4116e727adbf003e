-- The fence and the update of a saga that leaves its owner, because it ends or waits: its log ends with number ?9.
update or fail sagas
set status = ?2, paused = ?3, failed_step = ?4, owner = ?5, wake_at = ?6, updated_at = ?7
where id = ?1
    and (status = 'running' or status = 'compensating' or status = 'pending')
    and (?8 is null or inbox_seq = ?8)
    and (select max(seq) from saga_events where saga_id = ?1) = ?9
