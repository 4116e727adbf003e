select max(seq) from saga_events where saga_id = ?1
