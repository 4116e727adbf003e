delete from lifecycle_dead_letters
where id in (select value from json_each(?1))
returning id
