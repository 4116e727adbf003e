-- How many jobs wait in each of these partitions, counted up to a limit, and since when the oldest does.
select
    found.id::bigint,
    (select count(*) from (select 1 from jobs where status = 'Pending' and lane = found.id::bigint limit $2) as counted),
    (
        select created_at
        from jobs
        where status = 'Pending' and lane = found.id::bigint
        order by id
        limit 1
    )
from json_array_elements_text($1::text::json) with ordinality as found (id, place)
order by found.place
