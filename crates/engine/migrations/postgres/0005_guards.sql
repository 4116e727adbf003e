-- Guards of stored history that hold for every program. `ON CONFLICT DO UPDATE` fires update triggers, so only updates,
-- deletes and TRUNCATE need guards here.

create trigger definitions_refuse_delete
    before delete or truncate on definitions
    for each statement
    execute function refuse('a version of a definition is never deleted: sagas and logs refer to it');

create trigger sagas_refuse_truncate
    before truncate on sagas
    for each statement
    execute function refuse('sagas are never truncated: delete those that ended, or let retention do it');

-- Reused by every table whose rows go after their saga. The text is the trigger's.
create function refuse_before_saga() returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (select from $schema.sagas where id = old.saga_id) then
        raise exception '%', tg_argv[0] using errcode = 'restrict_violation', table = tg_table_name;
    end if;
    return old;
end;
$$;

create trigger saga_attributes_refuse_update
    before update or truncate on saga_attributes
    for each statement
    execute function refuse('attributes are set when the saga starts: they never change');

create trigger saga_attributes_refuse_delete
    before delete on saga_attributes
    for each row
    execute function refuse_before_saga('attributes can be deleted only after the row of their saga');

create trigger saga_inbox_refuse_update
    before update or truncate on saga_inbox
    for each statement
    execute function refuse('a message in an inbox never changes');

create trigger jobs_refuse_new_origin
    before update of id, saga_id, delivery_id, lane, queue, subject, payload, alert, created_at on jobs
    for each row
    execute function refuse('what a job was created with never changes');

create trigger jobs_refuse_delete
    before delete on jobs
    for each row
    when (old.status in ('Pending', 'Leased'))
    execute function refuse('the job is active: only a finished job can be deleted');

create trigger jobs_refuse_truncate
    before truncate on jobs
    for each statement
    execute function refuse('jobs are never truncated: delete those that finished, or let retention do it');

create trigger job_results_refuse_update
    before update or truncate on job_results
    for each statement
    execute function refuse('the result of a job never changes');

create trigger idempotency_ledger_refuse_new_origin
    before update of scope, key, digest, saga_id, at on idempotency_ledger
    for each row
    execute function refuse('what an idempotency key was first used for never changes');

-- A failed one begins again when its message is retried.
create trigger idempotency_ledger_refuse_new_result
    before update on idempotency_ledger
    for each row
    when (old.state = 'succeeded')
    execute function refuse('the result of an idempotency key never changes after its success');

create trigger idempotency_ledger_refuse_truncate
    before truncate on idempotency_ledger
    for each statement
    execute function refuse('an idempotency key can be deleted only after its saga or message');

create trigger idempotency_ledger_refuse_delete_of_start
    before delete on idempotency_ledger
    for each row
    when (old.saga_id is not null)
    execute function refuse_before_saga('an idempotency key can be deleted only after its saga or message');

create function refuse_before_message() returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    -- Two probes: each of the two indexes holds one kind.
    if exists (
        select
        from $schema.outbox
        where topic = substr(old.scope, 8) and idempotency_key = old.key and retry_of is null
    ) or exists (
        select
        from $schema.outbox
        where topic = substr(old.scope, 8) and idempotency_key = old.key and retry_of is not null
    ) then
        raise exception 'an idempotency key can be deleted only after its saga or message'
            using errcode = 'restrict_violation', table = tg_table_name;
    end if;
    return old;
end;
$$;

create trigger idempotency_ledger_refuse_delete_of_message
    before delete on idempotency_ledger
    for each row
    when (old.saga_id is null and starts_with(old.scope, 'outbox/'))
    execute function refuse_before_message();

create trigger outbox_refuse_new_origin
    before update of id, topic, idempotency_key, ordering_key, payload, request_digest, retry_of, created_at on outbox
    for each row
    execute function refuse('what a message was published with never changes: publish a new message');

create trigger outbox_refuse_delete
    before delete on outbox
    for each row
    when (old.status not in ('succeeded', 'aborted'))
    execute function refuse('the message is not sent: only a settled message can be deleted');

create trigger outbox_refuse_truncate
    before truncate on outbox
    for each statement
    execute function refuse('the outbox is never truncated: delete settled messages, or let retention do it');

-- Puts a message into the outbox in the caller's transaction, and its key into the ledger. The same key with the same
-- payload is the same message; either way the answer is its number. With another payload it is refused. So is a reserved
-- topic: alerts and saga events are published by the engine alone. Replaced and not dropped, so that grants stay.
create or replace function publish(
    topic           text,
    idempotency_key text,
    payload         jsonb,
    ordering_key    text        default null,
    expires_at      timestamptz default null,
    notify          boolean     default false
) returns bigint
    language plpgsql volatile security definer
    set search_path = pg_catalog, $schema, pg_temp
as $$
#variable_conflict use_variable
declare
    moment timestamptz := $schema.clock();
    given  bytea       := sha256(convert_to($schema.jcs(payload), 'UTF8'));
    kept   bigint;
    excess record;
    claim  record;
begin
    select l.* into excess
    from (
        values
            ('the topic', octet_length(topic), 512),
            ('the idempotency key', octet_length(idempotency_key), 512),
            ('the ordering key', octet_length(ordering_key), 512),
            ('the payload', octet_length(payload::text), 262144)
    ) as l (what, size, most)
    where l.size > l.most
    limit 1;
    if found then
        raise exception '% has % bytes, the limit is %', excess.what, excess.size, excess.most
            using errcode = 'program_limit_exceeded', hint = 'Pass a reference to where the data is instead.';
    end if;
    if topic is null or topic = '' or idempotency_key is null or idempotency_key = '' or payload is null then
        raise exception 'a message needs a topic, an idempotency key and a payload'
            using errcode = 'invalid_parameter_value', hint = 'Pass all three, none of them empty.';
    end if;
    if starts_with(topic, 'backstitch.') then
        raise exception 'the topic "%" is reserved for the engine', topic
            using errcode = 'reserved_name', hint = 'Choose a name that does not begin with "backstitch.".';
    end if;

    insert into $schema.idempotency_ledger (scope, key, digest, at)
    values ('outbox/' || topic, idempotency_key, given, moment)
    on conflict do nothing;
    if not found then
        select l.at, l.digest = given as same into claim
        from $schema.idempotency_ledger l
        where l.scope = 'outbox/' || topic and l.key = idempotency_key;
        select coalesce(
            (
                select max(o.id)
                from $schema.outbox o
                where o.topic = topic and o.idempotency_key = idempotency_key and o.retry_of is not null
            ),
            (
                select o.id
                from $schema.outbox o
                where o.topic = topic and o.idempotency_key = idempotency_key and o.retry_of is null
            )
        ) into kept;
        if claim.same and kept is null then
            raise exception 'the message of the idempotency key "%", which came at %, was removed for its age',
                idempotency_key, claim.at
                using errcode = 'unique_violation', hint = 'Use a new key for a new message.';
        end if;
        if claim.same then
            return kept;
        end if;
        raise exception 'the idempotency key "%" was first used for another payload, at %, as message %',
            idempotency_key, claim.at, coalesce(kept::text, 'that was removed since')
            using errcode = 'unique_violation', hint = 'Use a new key for a new message.';
    end if;
    insert into $schema.outbox as o (
        topic, idempotency_key, ordering_key, payload, request_digest, expires_at, due_at, created_at, updated_at
    )
    values (topic, idempotency_key, ordering_key, payload::text, given, expires_at, moment, moment, moment)
    on conflict do nothing
    returning o.id into kept;
    if kept is null then
        raise exception 'the topic "%" has a message of the engine''s own under the key "%"', topic, idempotency_key
            using errcode = 'unique_violation', hint = 'Use another key.';
    end if;
    if notify then
        perform pg_notify('$schema_outbox', '');
    end if;
    return kept;
end;
$$;
