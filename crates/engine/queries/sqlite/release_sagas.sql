update sagas
set owner = null, wake_at = ?2
where owner is not null and owner = ?1
