-- Jobs in these queues that nobody brings back: the last lease that each may lose has run out.
select id
from jobs
where
    queue in (select jsonb_array_elements_text($1::text::jsonb))
    and status = 'Leased' and until <= clock() and expiries + 1 >= $2::bigint
    and id <> all (array(select item::bigint from parked_items where area = 'lifecycle_jobs' and retry_at > clock()))
order by until
limit 256
