select min(wake_at)
from sagas
where
    owner is null and wake_at is not null and definition = ?1 and version = ?2
    and hex(id) not in (select upper(replace(item, '-', '')) from parked_items where area = 'adoption' and retry_at > ?3)
