-- Those of these partitions in which jobs wait.
select found.partition_id /*columns*/
from (select id::bigint as partition_id from json_array_elements_text($1::text::json) as asked (id)) as found
    cross join lateral (
        select
        from jobs
        where
            status = 'Pending' and lane = found.partition_id
            and id <> all (array(select item::bigint from parked_items where area = $2 and retry_at > clock()))
        limit 1
    ) as waiting
    /*joins*/
order by found.partition_id
