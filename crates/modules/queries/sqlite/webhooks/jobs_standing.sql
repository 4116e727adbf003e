-- Where the chosen jobs stand.
select id, token, status, last_error
from jobs
where id in (select value from json_each(?1))
