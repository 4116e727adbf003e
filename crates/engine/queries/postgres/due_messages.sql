-- The oldest of each topic. One behind another of its ordering key is put aside until that one is settled, so that it is
-- not met again; one whose time is up is left to the rescue. What is locked is found again by its
-- place; one that somebody changed at this moment has another one that this statement cannot see, and is met next time.
-- With $5 above zero it looks at so many of each topic, puts aside what is behind others and claims nothing. `behind` says how
-- many were met behind others, also where nothing is claimed: the other columns are null then.
with
picked as materialized (
    select due.*, wanted.lease
    from unnest($1::text[], $2::bigint[], $3::bigint[]) as wanted (topic, room, lease)
        cross join lateral (
            select ctid as place, id, topic, ordering_key, ordering_scope, expires_at
            from outbox
            where
                due_at is not null and topic = wanted.topic and due_at <= clock()
                and id <> all (array(select item::bigint from parked_items where area = 'outbox' and retry_at > clock()))
                and ($6::bigint[] is null or id = any ($6))
            order by due_at, id
            limit greatest(wanted.room, $5::bigint)
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
                and earlier.ordering_key = picked.ordering_key
                and coalesce(earlier.ordering_scope, earlier.topic) = coalesce(picked.ordering_scope, picked.topic)
                and earlier.id < picked.id
            order by id
            limit 1
        ) as first
    where picked.ordering_key is not null
),
-- A session that settles one of these waits, and then finds what is put aside here. Where it was first, or another claim has the
-- head, nothing is put aside and the message is met again: a claim waits for no other session, so that no two wait for each other.
held as materialized (
    select id
    from outbox
    where id in (select head from ahead) and status in ('pending', 'sending', 'failed')
    for share skip locked
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
    where $5 = 0
        and outbox.ctid = picked.place
        and picked.id not in (select id from ahead)
        and (picked.expires_at is null or picked.expires_at > clock())
    returning
        outbox.id, outbox.topic, idempotency_key, outbox.ordering_key, payload, outbox.expires_at, attempts, lock,
        in_doubt, created_at, lock = 1 and not counted as uncounted
)
select
    met.behind, id, topic, idempotency_key, ordering_key, payload, expires_at, attempts, lock, in_doubt, created_at,
    uncounted
from (select count(*) as behind from ahead) as met
    left join locked on true
order by id
