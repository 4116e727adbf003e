insert or fail into jobs (id, delivery_id, lane, queue, until, created_at)
values (?1, ?2, ?3, ?4, ?5, ?5)
