-- The jobs that lease.sql would pick.
select oldest.id
from unnest($1::bigint[], $2::bigint[]) as w (lane, most)
    cross join lateral (
        select id
        from jobs
        where
            status = 'Pending' and lane = w.lane and until <= clock()
            and id <> all (array(select item::bigint from parked_items where area = 'webhook_jobs' and retry_at > clock()))
        order by id
        limit w.most
    ) as oldest
