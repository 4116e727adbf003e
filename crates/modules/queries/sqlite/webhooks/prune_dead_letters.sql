delete from dead_letters
where saga_id in (select value from json_each(?1))
returning saga_id
