-- The partitions in which jobs wait, each found by a single probe of the index, however many wait in it.
with recursive
found (partition_id) as (
    select (
        select lane
        from jobs
        where
            status = 'Pending' and lane is not null and lane > $1
            and id <> all (array(select item::bigint from parked_items where area = $3 and retry_at > clock()))
        order by lane
        limit 1
    )
    union all
    select (
        select lane
        from jobs
        where
            status = 'Pending' and lane is not null and lane > found.partition_id
            and id <> all (array(select item::bigint from parked_items where area = $3 and retry_at > clock()))
        order by lane
        limit 1
    )
    from found
    where found.partition_id is not null
)
select found.partition_id /*columns*/
from (select partition_id from found limit $2) as found
    /*joins*/
where found.partition_id is not null
order by found.partition_id
