select id
from webhook_delivery_sagas
where requeue_of = $1
