-- Those of these partitions in which jobs wait.
select found.partition_id /*columns*/
from (select value as partition_id from json_each(?1)) as found
    /*joins*/
where exists (
    select 1
    from jobs indexed by jobs_due_in_lane
    where
        status = 'Pending' and lane = found.partition_id
        and id not in (select cast(item as integer) from parked_items where area = ?2 and retry_at > ?3)
)
order by found.partition_id
