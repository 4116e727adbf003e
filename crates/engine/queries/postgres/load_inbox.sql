select saga_id, seq, body
from saga_inbox
where saga_id = any ($1)
order by saga_id, seq
