select version, count(*) as sagas
from sagas
where status in ('pending', 'running', 'compensating') and definition = $1
group by version
order by version
