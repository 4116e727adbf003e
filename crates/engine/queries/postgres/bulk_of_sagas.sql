-- How long logs are, without unpacking what they hold.
select saga_id, count(*) as events, coalesce(sum(octet_length(data)), 0)::bigint as bytes
from saga_events
where saga_id = any ($1)
group by saga_id
