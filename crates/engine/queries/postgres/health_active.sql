-- Each no further than people care: a backlog of a million costs what ten thousand do.
select 'pending' as status, count(*) as count from (select 1 from sagas where status = 'pending' limit $1) as few
union all
select 'running' as status, count(*) as count from (select 1 from sagas where status = 'running' limit $1) as few
union all
select 'compensating' as status, count(*) as count from (select 1 from sagas where status = 'compensating' limit $1) as few
union all
select 'failed' as status, count(*) as count from (select 1 from sagas where status = 'failed' limit $1) as few
