-- Whatever was seen before: what has been taken up again since, or has something due, stays.
delete from sagas
where id in (select unhex(value) from json_each(?1))
    and status = ?2
    and updated_at < ?3
    and not exists (select 1 from jobs j where j.saga_id = sagas.id and j.status in ('Pending', 'Leased'))
returning id
