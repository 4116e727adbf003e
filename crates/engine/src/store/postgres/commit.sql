-- One batch of decisions, each written whole or not at all, in one statement and one round trip.
--
-- An element passes the gate when its first event can be appended; everything else an element writes is joined to
-- the gate. Names are qualified, because the statement also runs inside callers' transactions. The scalar subqueries
-- are there so that the planner has no choice but one index probe for each element, whatever its statistics say.
with
-- Keys first, in their own order, so that two batches never wait for each other. A saga that is there already
-- cannot pass the gate, so it must not take a key either.
claimed as (
    insert into backstitch.idempotency_ledger (at, saga_id, scope, key, digest)
    select c.at, c.saga_id, c.scope, c.key, c.digest
    from unnest($1::timestamptz[], $2::uuid[], $3::text[], $4::text[], $5::bytea[])
        as c (at, saga_id, scope, key, digest)
    where (select true from backstitch.saga_events e where e.saga_id = c.saga_id and e.seq = 1) is null
    on conflict do nothing
    returning saga_id
),
-- Rows before events, as adoption takes them, so that the two never wait for each other. Having waited for
-- somebody's message, this sees the number that message left behind.
locked as (
    select id, inbox_seq
    from backstitch.sagas
    where id = any ($22::uuid[])
    order by id
    for no key update
),
gate as (
    insert into backstitch.saga_events (at, saga_id, seq, attempt, type, step, data)
    select f.at, f.saga_id, f.seq, f.attempt, f.type, f.step, f.data
    from unnest(
            $6::timestamptz[], $7::uuid[], $8::integer[], $9::integer[], $10::text[], $11::text[], $12::text[],
            $13::boolean[], $14::integer[]
        ) as f (at, saga_id, seq, attempt, type, step, data, claims, inbox_seen)
        left join locked l on l.id = f.saga_id
    where case
            when f.seq = 1 then true
            else (select true from backstitch.sagas s where s.id = f.saga_id)
                and (
                    select true from backstitch.saga_events e where e.saga_id = f.saga_id and e.seq = f.seq - 1
                )
        end
        and (f.saga_id in (select saga_id from claimed) or not f.claims)
        and (f.inbox_seen is null or f.inbox_seen = l.inbox_seq)
    on conflict do nothing
    returning saga_id
),
more_events as (
    insert into backstitch.saga_events (at, saga_id, seq, attempt, type, step, data)
    select m.at, m.saga_id, m.seq, m.attempt, m.type, m.step, m.data
    from unnest(
            $15::timestamptz[], $16::uuid[], $17::integer[], $18::integer[], $19::text[], $20::text[], $21::text[]
        ) as m (at, saga_id, seq, attempt, type, step, data)
        join gate using (saga_id)
),
new_rows as (
    insert into backstitch.sagas (
        id, created_at, updated_at, owner, wake_at, version, status, definition, failed_step, correlation_id
    )
    select
        n.id, n.created_at, n.created_at, n.owner, n.wake_at, n.version, n.status, n.definition, n.failed_step,
        n.correlation_id
    from unnest(
            $29::uuid[], $30::timestamptz[], $31::bigint[], $32::timestamptz[], $33::integer[], $34::text[],
            $35::text[], $36::text[], $37::text[]
        ) as n (id, created_at, owner, wake_at, version, status, definition, failed_step, correlation_id)
        join gate on gate.saga_id = n.id
),
changed_rows as (
    update backstitch.sagas s
    set updated_at = u.updated_at, owner = u.owner, wake_at = u.wake_at, paused = u.paused, status = u.status,
        failed_step = u.failed_step
    from unnest(
            $22::uuid[], $23::timestamptz[], $24::bigint[], $25::timestamptz[], $26::boolean[], $27::text[],
            $28::text[]
        ) as u (id, updated_at, owner, wake_at, paused, status, failed_step)
        join gate on gate.saga_id = u.id
    where s.id = u.id and s.id = any ($22::uuid[])
),
new_attributes as (
    insert into backstitch.saga_attributes (saga_id, name, value)
    select a.saga_id, a.name, a.value
    from unnest($38::uuid[], $39::text[], $40::text[]) as a (saga_id, name, value)
        join gate using (saga_id)
),
consumed as (
    delete from backstitch.saga_inbox i
    using unnest($41::uuid[], $42::integer[]) as c (saga_id, through)
        join gate using (saga_id)
    where i.saga_id = c.saga_id and i.seq <= c.through and i.saga_id = any ($41::uuid[])
),
new_jobs as (
    insert into backstitch.jobs (until, created_at, saga_id, queue, subject, payload)
    select j.until, j.created_at, j.saga_id, j.queue, j.subject, j.payload
    from unnest($43::timestamptz[], $44::timestamptz[], $45::uuid[], $46::text[], $47::text[], $48::text[])
        as j (until, created_at, saga_id, queue, subject, payload)
        join gate using (saga_id)
    on conflict do nothing
),
new_messages as (
    insert into backstitch.outbox (due_at, created_at, topic, idempotency_key, ordering_key, payload)
    select m.at, m.at, m.topic, m.idempotency_key, m.ordering_key, m.payload
    from unnest($49::timestamptz[], $50::uuid[], $51::text[], $52::text[], $53::text[], $54::text[])
        as m (at, saga_id, topic, idempotency_key, ordering_key, payload)
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
from unnest($7::uuid[], $8::integer[], $13::boolean[], $14::integer[]) as f (saga_id, seq, claims, inbox_seen)
    left join locked l on l.id = f.saga_id
where f.saga_id not in (select saga_id from gate)
