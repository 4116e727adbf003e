select saga_id, max(seq) as newest
from saga_inbox
join sagas on sagas.id = saga_inbox.saga_id
where sagas.owner = ?1
group by saga_id
