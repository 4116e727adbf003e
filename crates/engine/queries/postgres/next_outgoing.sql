-- A message behind another one of its ordering key is not due, whatever its time says.
select due_at
from outbox
where status in ('pending', 'failed')
    and not exists (
        select
        from outbox as earlier
        where earlier.ordering_key is not null
            and earlier.status in ('pending', 'sending', 'failed')
            and earlier.topic = outbox.topic
            and earlier.ordering_key = outbox.ordering_key
            and earlier.id < outbox.id
    )
order by due_at
limit 1
