update sagas
set owner = null, wake_at = ?3
where id = ?1 and owner = ?2 and inbox_seq = ?4
    and (select max(seq) from saga_events where saga_id = ?1) = ?5
