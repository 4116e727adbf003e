-- By status and not by definition, under which every saga stands that ever ended.
select version, count(*)
from sagas
where status in ('pending', 'running', 'compensating') and +definition = ?1
group by version
order by version
