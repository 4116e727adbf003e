select count(*)
from (select 1 from outbox indexed by idx_outbox_status where status = ?1 limit ?2)
