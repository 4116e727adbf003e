-- As update_saga, for a saga whose owner and due time stay as they are.
update or fail sagas
set status = ?2, paused = ?3, failed_step = ?4, updated_at = ?5
where id = ?1
