insert into lifecycle_dead_letters (at, source, body, reason, mark)
select ?1, ?2, ?3, ?4, ?5
where not exists (select 1 from lifecycle_dead_letters where mark = ?5)
returning id
