delete from saga_events
where saga_id in (select unhex(value) from json_each(?1))
returning 1
