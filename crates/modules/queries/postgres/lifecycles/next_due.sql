-- In how many microseconds, by the server's clock.
select (extract(epoch from min(due_at) - clock()) * 1000000)::bigint
from lifecycles
where
    due_at is not null
    and id <> all (array(select item::uuid from parked_items where area = 'lifecycle_actions' and retry_at > clock()))
