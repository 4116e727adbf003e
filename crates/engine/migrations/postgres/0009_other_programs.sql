-- What other programs may write: guards of `declared`, and repeated keys that are reported only once they are durable.

create trigger declared_refuse_new_name
    before update of name on declared
    for each row
    execute function refuse('the name of a definition never changes: declare a new one');

create trigger declared_refuse_delete
    before delete or truncate on declared
    for each statement
    execute function refuse('a definition is never deleted: its sagas and logs refer to it');

-- A repeated key writes nothing, and a transaction without a write does not wait for the synchronous standby: a failover
-- could lose the row that its caller was told of. A message in the log makes the commit wait for all that was written before.
create function wait_for_standby() returns void
    language sql volatile
    set search_path = pg_catalog, pg_temp
as $$
    select pg_logical_emit_message(true, 'backstitch', ''::text)
$$;
revoke execute on function wait_for_standby() from public;

-- Starts a saga in the caller's transaction: it exists if and only if that transaction commits. It runs with the
-- rights of the schema's owner, so a program needs no more than USAGE on the schema and EXECUTE on this function.
-- Replaced and not dropped, so that grants stay.
create or replace function start(
    definition      text,
    input           json        default 'null',
    idempotency_key text        default null,
    correlation_id  text        default null,
    attributes      jsonb       default '{}',
    deadline        timestamptz default null,
    notify          boolean     default false
) returns uuid
    language plpgsql volatile security definer
    set search_path = pg_catalog, $schema, pg_temp
as $$
#variable_conflict use_variable
declare
    saga   uuid        := $schema.uuid_v7();
    moment timestamptz := $schema.clock();
    given  text        := coalesce(input::text, 'null');
    -- What tells this start from another one under the same key, as the library tells it.
    mark   bytea       := $schema.digest(given);
    labels jsonb       := jsonb_strip_nulls(
        jsonb_build_object(
            'attributes', nullif(attributes, '{}'), 'correlation_id', correlation_id,
            'deadline', (extract(epoch from deadline) * 1000000)::bigint
        )
    );
    latest integer;
    excess record;
    claim  record;
begin
    select d.active into latest from $schema.declared d where d.name = definition;
    if not found then
        select max(d.version) into latest from $schema.definitions d where d.name = definition;
    end if;
    if latest is null then
        raise exception 'no saga "%" is registered', definition
            using errcode = 'undefined_object',
                hint = 'Register it first: start the engine that has it on this database once, or apply its staged version.';
    end if;
    if jsonb_typeof(attributes) is distinct from 'object'
        or exists (select from jsonb_each(attributes) a where jsonb_typeof(a.value) <> 'string')
    then
        raise exception 'attributes must be a JSON object whose values are strings'
            using errcode = 'invalid_parameter_value';
    end if;
    -- The limits that the library has by default.
    select l.* into excess
    from (
        values
            ('the input', octet_length(given), 262144, 'bytes'),
            ('the idempotency key', octet_length(idempotency_key), 512, 'bytes'),
            ('the correlation id', octet_length(correlation_id), 512, 'bytes'),
            ('the list of attributes', (select count(*) from jsonb_each(attributes)), 32, 'entries'),
            ('an attribute''s name', (select max(octet_length(a.key)) from jsonb_each(attributes) a), 512, 'bytes'),
            (
                'an attribute''s value',
                (select max(octet_length(a.value)) from jsonb_each_text(attributes) a), 512, 'bytes'
            )
    ) as l (what, size, most, unit)
    where l.size > l.most
    limit 1;
    if found then
        raise exception '% has % %, the limit is %', excess.what, excess.size, excess.unit, excess.most
            using errcode = 'program_limit_exceeded',
                hint = 'Pass a reference to where the data is instead.';
    end if;

    if labels <> '{}' then
        mark := sha256(mark || $schema.digest(labels::text));
    end if;
    if idempotency_key is not null then
        insert into $schema.idempotency_ledger (scope, key, digest, saga_id, at)
        values ('saga/' || definition, idempotency_key, mark, saga, moment)
        on conflict do nothing;
        if not found then
            select l.saga_id, l.at, l.digest = mark as same into claim
            from $schema.idempotency_ledger l
            where l.scope = 'saga/' || definition and l.key = idempotency_key;
            if claim.same then
                perform $schema.wait_for_standby();
                return claim.saga_id;
            end if;
            raise exception 'the idempotency key "%" was first used for another start, at %, and started saga %',
                idempotency_key, claim.at, claim.saga_id
                using errcode = 'unique_violation', hint = 'Use a new key for a new request.';
        end if;
    end if;

    insert into $schema.sagas (id, created_at, updated_at, wake_at, version, status, definition, correlation_id)
    values (saga, moment, moment, moment, latest, 'pending', definition, correlation_id);
    insert into $schema.saga_events (at, saga_id, seq, type, data)
    values (
        moment, saga, 1, 'saga.started',
        -- Put together as text, so that the input stays as it was given.
        concat(
            '{"definition":', to_json(definition), ',"version":', latest, ',"input":', given,
            ',"correlation_id":' || to_json(correlation_id)::text,
            ',"deadline":' || (extract(epoch from deadline) * 1000000)::bigint,
            case when attributes <> '{}' then ',"attributes":' || attributes::text end,
            '}'
        )
    );
    insert into $schema.saga_attributes (saga_id, name, value)
    select saga, a.key, a.value from jsonb_each_text(attributes) a;

    if notify then
        perform pg_notify('$schema_start', saga::text);
    end if;
    return saga;
end;
$$;

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
            perform $schema.wait_for_standby();
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
