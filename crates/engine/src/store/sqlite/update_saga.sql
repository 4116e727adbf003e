-- What a decision changes in the row of its saga. One row and one writer: there is nothing to go back to, so no journal is
-- kept in case the update fails.
update or fail sagas
set status = ?2, paused = ?3, failed_step = ?4, owner = ?5, wake_at = ?6, updated_at = ?7
where id = ?1
