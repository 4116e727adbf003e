select min(wake_at)
from sagas
where owner is null and wake_at is not null and definition = ?1 and version = ?2
