-- All of them are over: what ends takes back what nobody waits for any more.
delete from jobs
where saga_id in (select unhex(value) from json_each(?1)) and status in ('Completed', 'Failed')
returning 1
