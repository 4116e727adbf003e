select status, count(*)
from sagas
where status in ('pending', 'running', 'compensating', 'failed')
group by status
