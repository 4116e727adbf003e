-- Sagas: their rows and logs.

-- part: summary
id, definition, version, status, paused, failed_step, owner, wake_at, correlation_id, created_at, updated_at

-- part: summaries
select {summary}
from

-- part: event
seq, at, type, step, attempt, data

-- name: load
select {summary}, inbox_seq
from sagas
where id = any ($1)

-- name: log
select {event}
from saga_events
where saga_id = $1 and seq > $2
    -- Lifecycles have their logs here too, and no sagas: whoever asks for one by its id finds nothing.
    and type not like 'action.%' and type not like 'lifecycle.%'
order by seq
limit $3

-- name: heads
-- One look into the index for each log, however long it is.
select log.id, newest.seq
from unnest($1::uuid[]) as log (id)
    cross join lateral (
        select e.seq from saga_events e where e.saga_id = log.id order by e.seq desc limit 1
    ) as newest

-- name: logs, postgres only
select saga_id, {event}
from saga_events
where saga_id = any ($1)
    -- Lifecycles have their logs here too, and no sagas: whoever asks for one by its id finds nothing.
    and type not like 'action.%' and type not like 'lifecycle.%'
order by saga_id, seq

-- name: first_events, postgres only
-- The first events of those of these sagas that have no other.
select saga_id, {event}
from saga_events
where saga_id = any ($1)
    and seq = 1
    and not exists (
        select from saga_events later where later.saga_id = saga_events.saga_id and later.seq = 2
    )
order by saga_id

-- name: written_events, postgres only
select e.saga_id, {e.event}
from unnest($1::uuid[], $2::integer[]) as f (saga_id, seq)
    join saga_events e on e.saga_id = f.saga_id and e.seq = f.seq

-- The parts of the statement that writes a batch of decisions, each decision whole or not at all, in one round trip. The
-- statement has the parts that a batch needs (`commit_statement.rs`): the server sets up each part of a statement, also for no
-- rows.
--
-- An element passes the gate when its first event can be appended; everything else an element writes is joined to
-- the gate. Names are qualified, because the statement also runs inside callers' transactions, whose `search_path` is theirs.
--
-- Arrays are unnested in the select list, where they are read in step and not stored one by one. The scalar
-- subqueries leave the planner no choice but one index probe for each element, whatever its statistics say.

-- part: commit_locked
-- Rows before events, as adoption takes them, so that the two never wait for each other. Having waited for
-- somebody's message, this sees the number that the message left behind.
locked as (
    select id, inbox_seq
    from $schema.sagas
    where id = any ($24::uuid[])
    order by id
    for no key update
)

-- part: commit_nothing_locked
locked as (select null::uuid as id, null::integer as inbox_seq where false)

-- part: commit_claimed
-- Keys come in an order of their own, so that no two batches wait for each other. What cannot pass the gate must not
-- take its key, so this asks what the gate will ask.
claimed as (
    insert into $schema.idempotency_ledger (at, saga_id, scope, key, digest)
    select c.at, c.saga_id, c.scope, c.key, c.digest
    from (
        select
            unnest($1::timestamptz[]) as at, unnest($2::uuid[]) as saga_id, unnest($3::text[]) as scope,
            unnest($4::text[]) as key, unnest($5::bytea[]) as digest, unnest($6::integer[]) as seq,
            unnest($7::integer[]) as inbox_seen
    ) as c
        left join locked l on l.id = c.saga_id
    where (select true from $schema.saga_events e where e.saga_id = c.saga_id and e.seq = c.seq) is null
        and case
            when c.seq = 1 then true
            else (
                select e.type not in ('saga.succeeded', 'saga.compensated')
                    and (e.type <> 'saga.failed' or l.id is not null)
                from $schema.saga_events e
                where e.saga_id = c.saga_id and e.seq = c.seq - 1
            )
        end
        and (c.inbox_seen is null or c.inbox_seen = l.inbox_seq)
    on conflict do nothing
    returning saga_id
)

-- part: commit_nothing_claimed
claimed as (select null::uuid as saga_id where false)

-- part: commit_gate
-- The event before the first one must be there: a saga that is gone, or a number that skips some, is no fence.
-- It must not be the end either: nothing follows a good one, and a failed rollback goes on only with its row.
gate as (
    insert into $schema.saga_events (at, saga_id, seq, attempt, type, step, data)
    select f.at, f.saga_id, f.seq, f.attempt, f.type, f.step, f.data
    from (
        select
            unnest($8::timestamptz[]) as at, unnest($9::uuid[]) as saga_id, unnest($10::integer[]) as seq,
            unnest($11::integer[]) as attempt, unnest($12::text[]) as type, unnest($13::text[]) as step,
            unnest($14::text[]) as data, unnest($15::boolean[]) as claims, unnest($16::integer[]) as inbox_seen
    ) as f
        left join locked l on l.id = f.saga_id
    where case
            when f.seq = 1 then true
            else (
                select e.type not in ('saga.succeeded', 'saga.compensated')
                    and (e.type <> 'saga.failed' or l.id is not null)
                from $schema.saga_events e
                where e.saga_id = f.saga_id and e.seq = f.seq - 1
            )
        end
        -- In this order, so that all keys are claimed before anything else is written.
        and (f.saga_id in (select saga_id from claimed) or not f.claims)
        and (f.inbox_seen is null or f.inbox_seen = l.inbox_seq)
    on conflict do nothing
    returning saga_id
)

-- part: commit_more_events
more_events as (
    insert into $schema.saga_events (at, saga_id, seq, attempt, type, step, data)
    select m.at, m.saga_id, m.seq, m.attempt, m.type, m.step, m.data
    from (
        select
            unnest($17::timestamptz[]) as at, unnest($18::uuid[]) as saga_id, unnest($19::integer[]) as seq,
            unnest($20::integer[]) as attempt, unnest($21::text[]) as type, unnest($22::text[]) as step,
            unnest($23::text[]) as data
    ) as m
        join gate using (saga_id)
)

-- part: commit_changed_rows
changed_rows as (
    update $schema.sagas s
    set updated_at = u.updated_at, owner = u.owner, wake_at = u.wake_at, paused = u.paused, status = u.status,
        failed_step = u.failed_step
    from (
        select
            unnest($24::uuid[]) as saga_id, unnest($25::timestamptz[]) as updated_at, unnest($26::bigint[]) as owner,
            unnest($27::timestamptz[]) as wake_at, unnest($28::boolean[]) as paused, unnest($29::text[]) as status,
            unnest($30::text[]) as failed_step
    ) as u
        join gate using (saga_id)
    where s.id = u.saga_id and s.id = any ($24::uuid[])
)

-- part: commit_new_rows
new_rows as (
    insert into $schema.sagas (
        id, created_at, updated_at, owner, wake_at, version, status, definition, failed_step, correlation_id
    )
    select
        n.saga_id, n.created_at, n.created_at, n.owner,
        -- What is due as soon as it is there must not wait for a clock that is ahead of the one it is judged by.
        case when n.wake_at <= n.created_at then least(n.wake_at, $schema.clock()) else n.wake_at end,
        n.version, n.status, n.definition, n.failed_step, n.correlation_id
    from (
        select
            unnest($31::uuid[]) as saga_id, unnest($32::timestamptz[]) as created_at, unnest($33::bigint[]) as owner,
            unnest($34::timestamptz[]) as wake_at, unnest($35::integer[]) as version, unnest($36::text[]) as status,
            unnest($37::text[]) as definition, unnest($38::text[]) as failed_step,
            unnest($39::text[]) as correlation_id
    ) as n
        join gate using (saga_id)
)

-- part: commit_new_attributes
new_attributes as (
    insert into $schema.saga_attributes (saga_id, name, value)
    select a.saga_id, a.name, a.value
    from (
        select unnest($40::uuid[]) as saga_id, unnest($41::text[]) as name, unnest($42::text[]) as value
    ) as a
        join gate using (saga_id)
)

-- part: commit_consumed
consumed as (
    delete from $schema.saga_inbox i
    using (select unnest($43::uuid[]) as saga_id, unnest($44::integer[]) as through) as c
        join gate using (saga_id)
    where i.saga_id = c.saga_id and i.seq <= c.through and i.saga_id = any ($43::uuid[])
)

-- part: commit_withdrawn_jobs
-- A job that a worker leases at this moment is skipped: the lease locks it before its saga, so waiting for it could be a
-- deadlock. Its attempt has ended, so its answer is stale.
unleased as (
    select j.id
    from (select unnest($59::uuid[]) as saga_id, unnest($60::text[]) as subject) as w
        join gate using (saga_id)
        join $schema.jobs j on j.saga_id = w.saga_id and j.subject = w.subject
    where j.status = 'Pending' and j.saga_id is not null and j.saga_id = any ($59::uuid[])
    for no key update of j skip locked
),
withdrawn_jobs as (
    update $schema.jobs j
    set status = 'Failed', last_error = 'withdrawn'
    from unleased
    where j.id = unleased.id
)

-- part: commit_new_jobs
-- The job that is already under way stands for a repeated one.
new_jobs as (
    insert into $schema.jobs (until, created_at, saga_id, queue, subject, payload, alert)
    -- What is due at once is due by this clock too, however far ahead the node's is.
    select
        case when j.until <= j.created_at then least(j.until, $schema.clock()) else j.until end,
        j.created_at, j.saga_id, j.queue, j.subject, j.payload, j.alert
    from (
        select
            unnest($45::timestamptz[]) as until, unnest($46::timestamptz[]) as created_at,
            unnest($47::uuid[]) as saga_id, unnest($48::text[]) as queue, unnest($49::text[]) as subject,
            unnest($50::text[]) as payload, unnest($57::text[]) as alert
    ) as j
        join gate using (saga_id)
    on conflict do nothing
)

-- part: commit_new_messages
-- A key that its topic has seen keeps the first message.
new_messages as (
    insert into $schema.outbox (
        due_at, created_at, updated_at, topic, idempotency_key, ordering_key, payload, expires_at
    )
    select
        least(m.at, $schema.clock()), m.at, m.at, m.topic, m.idempotency_key, m.ordering_key, m.payload,
        m.expires_at
    from (
        select
            unnest($51::timestamptz[]) as at, unnest($52::uuid[]) as saga_id, unnest($53::text[]) as topic,
            unnest($54::text[]) as idempotency_key, unnest($55::text[]) as ordering_key,
            unnest($56::text[]) as payload, unnest($58::timestamptz[]) as expires_at,
            generate_subscripts($53::text[], 1) as place
    ) as m
        join gate using (saga_id)
    -- In the order in which they are to arrive.
    order by m.place
    on conflict do nothing
)

-- part: commit_refused
-- Nothing to say about those that passed. One that took its key and then lost its fence to somebody who was quicker
-- undoes the batch, which is then sent again. What no later try can pass is fenced, whatever else stands in its way.
select
    f.saga_id,
    case when f.claims and f.saga_id in (select saga_id from claimed) then $schema.try_again() end,
    (select true from $schema.saga_events e where e.saga_id = f.saga_id and e.seq = f.seq) is not null
        or f.seq > 1
            and (
                select e.type not in ('saga.succeeded', 'saga.compensated')
                    and (e.type <> 'saga.failed' or l.id is not null)
                from $schema.saga_events e
                where e.saga_id = f.saga_id and e.seq = f.seq - 1
            ) is not true
        as fenced,
    coalesce(l.inbox_seq <> f.inbox_seen, false) as mail_waiting
from (
    select
        unnest($9::uuid[]) as saga_id, unnest($10::integer[]) as seq, unnest($15::boolean[]) as claims,
        unnest($16::integer[]) as inbox_seen
) as f
    left join locked l on l.id = f.saga_id
where f.saga_id not in (select saga_id from gate)

-- name: stuck
-- What no living process has, along three indexes, none of which holds a saga that only waits for its time: what a life that
-- is over left behind, what has been due and nobody's for as long, and what nothing will ever move. Of each a thousand are looked
-- at, so that a backlog costs no more than that.
with recursive
    owners (definition, version, owner) as (
        (
            select definition, version, owner
            from sagas
            where owner is not null
            order by definition, version, owner
            limit 1
        )
        union all
        select next.definition, next.version, next.owner
        from owners
            cross join lateral (
                select definition, version, owner
                from sagas
                where owner is not null
                    and (definition, version, owner) > (owners.definition, owners.version, owners.owner)
                order by definition, version, owner
                limit 1
            ) as next
    )
select {summary}
from (
    (
        select left_behind.*
        from owners
            cross join lateral (
                select {summary}
                from sagas
                where owner is not null
                    and definition = owners.definition
                    and version = owners.version
                    and owner = owners.owner
                limit 1000
            ) as left_behind
        -- Until the end of its lease it had somebody.
        where owners.owner not in (
            select epoch from nodes where heartbeat_at + lease_ms * interval '1 ms' > least($1, clock())
            union all
            -- Those who were struck off.
            select substr(what, 6)::bigint from turns where starts_with(what, 'node/') and until > $1
        )
        limit 1000
    )
    union all
    (
        select due.*
        from definitions
            cross join lateral (
                select {summary}
                from sagas
                where owner is null
                    and wake_at is not null
                    and definition = definitions.name
                    and version = definitions.version
                    and wake_at <= $1
                order by definition, version, wake_at
                limit 1000
            ) as due
        limit 1000
    )
    union all
    (
        select {summary}
        from sagas
        where owner is null
            and wake_at is null
            and paused = false
            and status in ('pending', 'running', 'compensating')
        order by definition, version, id
        limit 1000
    )
) as found
where updated_at <= $1 and not paused
order by updated_at, id
limit $2

-- name: orphaned
-- What nothing will ever move. The index begins with such sagas, so there is next to nothing to read.
select {summary}
from sagas
where owner is null
    and wake_at is null
    and paused = false
    and status in ('pending', 'running', 'compensating')
    and not exists (
        select 1 from jobs where saga_id = sagas.id and status in ('Pending', 'Leased')
    )
order by definition, version, id
limit $1
