-- Jobs of items whose lease has expired.
select status, token, until, attempts, expiries, id, delivery_id, lane, last_error
from jobs as job indexed by jobs_leased
where
    status = 'Leased' and queue = ?1 and until <= ?2 and delivery_id is not null
    and id not in (select cast(item as integer) from parked_items where area = ?4 and retry_at > ?2)
    /*condition*/
order by until
limit ?3
