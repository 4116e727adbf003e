-- How many of the newest 10,000 (`COUNTED`) wait for somebody to requeue them.
select count(*)
from (
    select saga_id
    from dead_letters
    order by created_at desc
    limit 10000
) as newest
where not exists (select 1 from webhook_delivery_sagas where requeue_of = newest.saga_id)
