-- Jobs by queue: those that wait for a worker, with when the first was due, and those that workers hold a lease for. Deliveries
-- of webhooks have queues of their own. At most 100,000 of each are counted, so that a long queue costs no more.
select queue, count(*) as pending, 0::bigint as leased, (extract(epoch from min(until)) * 1000000)::bigint as due
from (
    select queue, until
    from jobs
    where status = 'Pending' and lane is null
    limit 100000
) as pending
group by queue
union all
select queue, 0::bigint, count(*), null::bigint
from (
    select queue
    from jobs
    where status = 'Leased' and lane is null
    limit 100000
) as leased
group by queue
