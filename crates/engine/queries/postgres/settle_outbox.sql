-- Locked in the order of their numbers, so that no two sessions wait for each other. What is locked is found again by its place: a
-- message that somebody changed at this moment has another one that this statement cannot see, but whoever changes a message
-- that is being sent takes it from its sender, and then its end counts no more.
with
found as materialized (
    select outbox.ctid as place, s.status, s.counts, s.wait, s.code, s.error, s.answer
    from outbox
        join unnest(
            $1::bigint[], $2::bigint[], $3::text[], $4::integer[], $5::bigint[], $6::text[], $7::text[], $8::text[]
        ) as s (id, lock, status, counts, wait, code, error, answer)
            on outbox.id = s.id and outbox.lock = s.lock and outbox.status = 'sending'
    order by outbox.id
    for no key update of outbox
),
settled as (
    update outbox
    set status = case when found.status = 'given_back' then case when attempts = 0 then 'pending' else 'failed' end
            else found.status end,
        attempts = attempts + found.counts,
        due_at = case
            when found.status = 'given_back' then clock()
            -- One that will be too old by then is looked at as soon as it is.
            when found.wait is not null then least(
                clock() + found.wait * interval '1 microsecond',
                case when expires_at is not null then greatest(expires_at, clock()) end
            )
        end,
        last_error_code = coalesce(found.code, last_error_code),
        last_error_msg = coalesce(found.error, last_error_msg),
        locked_by = null,
        locked_at = null,
        updated_at = clock()
    from found
    where outbox.ctid = found.place
    returning
        outbox.topic, outbox.idempotency_key, outbox.ordering_key, coalesce(ordering_scope, topic) as ordering_scope,
        found.status, found.answer
),
told as (
    update idempotency_ledger
    set state = case when settled.status = 'succeeded' then 'succeeded' else 'failed' end, result = settled.answer
    from settled
    where settled.status in ('succeeded', 'aborted')
        and scope = 'outbox/' || settled.topic
        and key = settled.idempotency_key
)
select distinct ordering_scope, ordering_key
from settled
where status in ('succeeded', 'aborted') and ordering_key is not null
