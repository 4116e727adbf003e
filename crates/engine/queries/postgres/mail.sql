select distinct saga_id
from saga_inbox
join sagas on sagas.id = saga_inbox.saga_id
where sagas.owner = $1
