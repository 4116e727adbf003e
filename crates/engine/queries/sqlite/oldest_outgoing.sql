select created_at
from outbox
where status in ('pending', 'sending', 'failed')
order by created_at
limit 1
