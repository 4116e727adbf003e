-- The oldest of each topic. One behind another of its ordering key is put aside until that one is settled, so that it is
-- not met again; one whose time is up is left to the rescue. What is locked is found again by its
-- place; one that somebody changed at this moment has another one that this statement cannot see, and is met next time.
with
picked as materialized (
    select due.*, wanted.lease
    from unnest($1::text[], $2::bigint[], $3::bigint[]) as wanted (topic, room, lease)
        cross join lateral (
            select ctid as place, id, topic, ordering_key, expires_at
            from outbox
            where
                due_at is not null and topic = wanted.topic and due_at <= clock()
                and id <> all (array(select item::bigint from parked_items where area = 'outbox' and retry_at > clock()))
                and ($5::bigint[] is null or id = any ($5))
            order by due_at, id
            limit wanted.room
            for update skip locked
        ) as due
),
ahead as materialized (
    select picked.id, picked.place, first.id as head
    from picked
        cross join lateral (
            select id
            from outbox as earlier
            where earlier.ordering_key is not null
                and earlier.status in ('pending', 'sending', 'failed')
                and earlier.topic = picked.topic
                and earlier.ordering_key = picked.ordering_key
                and earlier.id < picked.id
            order by id
            limit 1
        ) as first
    where picked.ordering_key is not null
),
-- Whoever settles one of these waits, and then finds what is put aside here; or was first, and it is not put aside.
-- In this order, as they are settled, so that nobody waits for each other.
held as materialized (
    select id
    from outbox
    where id in (select head from ahead) and status in ('pending', 'sending', 'failed')
    order by id
    for share
),
put_aside as (
    update outbox
    set due_at = null
    from ahead
        join held on held.id = ahead.head
    where outbox.ctid = ahead.place
),
locked as (
    update outbox
    set status = 'sending', lock = lock + 1, locked_at = clock(), locked_by = $4, updated_at = clock(), due_at = null,
        leased_until = clock() + picked.lease * interval '1 ms'
    from picked
    where outbox.ctid = picked.place
        and picked.id not in (select id from ahead)
        and (picked.expires_at is null or picked.expires_at > clock())
    returning
        outbox.id, outbox.topic, idempotency_key, outbox.ordering_key, payload, outbox.expires_at, attempts, lock,
        in_doubt, created_at, lock = 1 and not counted as uncounted
)
select
    id, topic, idempotency_key, ordering_key, payload, expires_at, attempts, lock, in_doubt, created_at, uncounted
from locked
order by id
