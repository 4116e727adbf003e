update sagas
set owner = null, wake_at = ?3
where id = ?1 and owner = ?2 and inbox_seq = ?4
