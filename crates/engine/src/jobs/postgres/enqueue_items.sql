-- Jobs of items, each in a partition. An item that has an active job gets no other; one without a job is passed on.
-- $1 items, $2 partitions, $3 whether the item gets a job, $4 queue.
with asked as (
    select item, partition_id, case when is_enqueued then nextval('jobs_id_seq') end as id
    from unnest($1::bigint[], $2::bigint[], $3::boolean[]) as a (item, partition_id, is_enqueued)
),
free as materialized (
    select *
    from asked
    where not exists (select from jobs where delivery_id = asked.item and status in ('Pending', 'Leased'))
)
/*then*/
, enqueued as (
    insert into jobs (id, delivery_id, lane, queue, until, created_at)
    select id, item, partition_id, $4, clock(), clock()
    from free
    where id is not null /*condition*/
)
select free.item /*columns*/
from free
    /*joins*/
