select seq, body
from saga_inbox
where saga_id = ?1
order by seq
