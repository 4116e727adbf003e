-- How many jobs wait in each of these partitions, counted up to a limit, and since when the oldest does.
select
    found.value,
    (
        select count(*)
        from (
            select 1
            from jobs indexed by jobs_due_in_lane
            where status = 'Pending' and lane = found.value
            limit ?2
        ) as counted
    ),
    (
        select created_at
        from jobs indexed by jobs_due_in_lane
        where status = 'Pending' and lane = found.value
        order by id
        limit 1
    )
from json_each(?1) as found
order by found.key
