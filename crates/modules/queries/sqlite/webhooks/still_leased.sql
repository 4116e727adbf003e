-- Those of the chosen jobs that somebody has.
select id, token
from jobs
where id in (select value from json_each(?1)) and status = 'Leased'
