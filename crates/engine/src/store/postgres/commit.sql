-- One batch of decisions, each written whole or not at all, in one statement and one round trip.
--
-- An element passes the gate when its first event can be appended; everything else an element writes is joined to
-- the gate. Names are qualified, because the statement also runs inside callers' transactions.
--
-- Arrays are unnested in the select list, where they are read in step and not stored one by one. The scalar
-- subqueries leave the planner no choice but one index probe for each element, whatever its statistics say.
with
-- Keys first, in their own order, so that two batches never wait for each other. A saga that is there already
-- cannot pass the gate, so it must not take a key either.
claimed as (
    insert into backstitch.idempotency_ledger (at, saga_id, scope, key, digest)
    select c.at, c.saga_id, c.scope, c.key, c.digest
    from (
        select
            unnest($1::timestamptz[]) as at, unnest($2::uuid[]) as saga_id, unnest($3::text[]) as scope,
            unnest($4::text[]) as key, unnest($5::bytea[]) as digest
    ) as c
    where (select true from backstitch.saga_events e where e.saga_id = c.saga_id and e.seq = 1) is null
    on conflict do nothing
    returning saga_id
),
-- Rows before events, as adoption takes them, so that the two never wait for each other. Having waited for
-- somebody's message, this sees the number that the message left behind.
locked as (
    select id, inbox_seq
    from backstitch.sagas
    where id = any ($22::uuid[])
    order by id
    for no key update
),
-- The event before the first one must be there: a saga that is gone, or a number that skips some, is no fence.
gate as (
    insert into backstitch.saga_events (at, saga_id, seq, attempt, type, step, data)
    select f.at, f.saga_id, f.seq, f.attempt, f.type, f.step, f.data
    from (
        select
            unnest($6::timestamptz[]) as at, unnest($7::uuid[]) as saga_id, unnest($8::integer[]) as seq,
            unnest($9::integer[]) as attempt, unnest($10::text[]) as type, unnest($11::text[]) as step,
            unnest($12::text[]) as data, unnest($13::boolean[]) as claims, unnest($14::integer[]) as inbox_seen
    ) as f
        left join locked l on l.id = f.saga_id
    where case
            when f.seq = 1 then true
            else (select true from backstitch.saga_events e where e.saga_id = f.saga_id and e.seq = f.seq - 1)
        end
        -- In this order, so that all keys are claimed before anything else is written.
        and (f.saga_id in (select saga_id from claimed) or not f.claims)
        and (f.inbox_seen is null or f.inbox_seen = l.inbox_seq)
    on conflict do nothing
    returning saga_id
),
more_events as (
    insert into backstitch.saga_events (at, saga_id, seq, attempt, type, step, data)
    select m.at, m.saga_id, m.seq, m.attempt, m.type, m.step, m.data
    from (
        select
            unnest($15::timestamptz[]) as at, unnest($16::uuid[]) as saga_id, unnest($17::integer[]) as seq,
            unnest($18::integer[]) as attempt, unnest($19::text[]) as type, unnest($20::text[]) as step,
            unnest($21::text[]) as data
    ) as m
        join gate using (saga_id)
),
changed_rows as (
    update backstitch.sagas s
    set updated_at = u.updated_at, owner = u.owner, wake_at = u.wake_at, paused = u.paused, status = u.status,
        failed_step = u.failed_step
    from (
        select
            unnest($22::uuid[]) as saga_id, unnest($23::timestamptz[]) as updated_at, unnest($24::bigint[]) as owner,
            unnest($25::timestamptz[]) as wake_at, unnest($26::boolean[]) as paused, unnest($27::text[]) as status,
            unnest($28::text[]) as failed_step
    ) as u
        join gate using (saga_id)
    where s.id = u.saga_id and s.id = any ($22::uuid[])
),
new_rows as (
    insert into backstitch.sagas (
        id, created_at, updated_at, owner, wake_at, version, status, definition, failed_step, correlation_id
    )
    select
        n.saga_id, n.created_at, n.created_at, n.owner, n.wake_at, n.version, n.status, n.definition, n.failed_step,
        n.correlation_id
    from (
        select
            unnest($29::uuid[]) as saga_id, unnest($30::timestamptz[]) as created_at, unnest($31::bigint[]) as owner,
            unnest($32::timestamptz[]) as wake_at, unnest($33::integer[]) as version, unnest($34::text[]) as status,
            unnest($35::text[]) as definition, unnest($36::text[]) as failed_step,
            unnest($37::text[]) as correlation_id
    ) as n
        join gate using (saga_id)
),
new_attributes as (
    insert into backstitch.saga_attributes (saga_id, name, value)
    select a.saga_id, a.name, a.value
    from (
        select unnest($38::uuid[]) as saga_id, unnest($39::text[]) as name, unnest($40::text[]) as value
    ) as a
        join gate using (saga_id)
),
consumed as (
    delete from backstitch.saga_inbox i
    using (select unnest($41::uuid[]) as saga_id, unnest($42::integer[]) as through) as c
        join gate using (saga_id)
    where i.saga_id = c.saga_id and i.seq <= c.through and i.saga_id = any ($41::uuid[])
),
-- The job that is already under way stands for a repeated one.
new_jobs as (
    insert into backstitch.jobs (until, created_at, saga_id, queue, subject, payload)
    select j.until, j.created_at, j.saga_id, j.queue, j.subject, j.payload
    from (
        select
            unnest($43::timestamptz[]) as until, unnest($44::timestamptz[]) as created_at,
            unnest($45::uuid[]) as saga_id, unnest($46::text[]) as queue, unnest($47::text[]) as subject,
            unnest($48::text[]) as payload
    ) as j
        join gate using (saga_id)
    on conflict do nothing
),
-- A key that its topic has seen keeps the first message.
new_messages as (
    insert into backstitch.outbox (due_at, created_at, topic, idempotency_key, ordering_key, payload)
    select m.at, m.at, m.topic, m.idempotency_key, m.ordering_key, m.payload
    from (
        select
            unnest($49::timestamptz[]) as at, unnest($50::uuid[]) as saga_id, unnest($51::text[]) as topic,
            unnest($52::text[]) as idempotency_key, unnest($53::text[]) as ordering_key,
            unnest($54::text[]) as payload
    ) as m
        join gate using (saga_id)
    on conflict do nothing
)
-- Nothing to say about those that passed.
select
    f.saga_id,
    f.claims and f.saga_id not in (select saga_id from claimed) as key_used,
    l.inbox_seq <> f.inbox_seen
        and (
            select true from backstitch.saga_events e where e.saga_id = f.saga_id and e.seq = f.seq
        ) is null as mail_waiting
from (
    select
        unnest($7::uuid[]) as saga_id, unnest($8::integer[]) as seq, unnest($13::boolean[]) as claims,
        unnest($14::integer[]) as inbox_seen
) as f
    left join locked l on l.id = f.saga_id
where f.saga_id not in (select saga_id from gate)
