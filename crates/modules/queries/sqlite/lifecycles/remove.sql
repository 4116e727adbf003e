-- What has ended does not change any more.
delete from lifecycles
where id in (select unhex(value) from json_each(?1)) and (ended or abandoned) and updated_at < ?2
returning id
