-- Keys that make a repeated request the same request, messages to the world, and the functions that let any
-- program start a saga or publish a message inside a transaction of its own.

create table idempotency_ledger (
    at      timestamptz      not null,
    saga_id uuid,
    scope   text collate "C" not null,
    key     text collate "C" not null,
    digest  bytea            not null check (octet_length(digest) = 32),
    state   text collate "C" not null default 'accepted'
        check (state in ('accepted', 'succeeded', 'failed')),
    result  text,
    primary key (scope, key)
-- Every row is settled once: in the room beside it, that touches no index.
) with (fillfactor = 50);

-- Undoes a statement in which a key was taken by a decision that then lost its fence. The error is one after which
-- everybody tries again.
create function try_again() returns boolean
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'somebody else decided about the saga a moment ago' using errcode = 'serialization_failure';
end;
$$;

create index ledger_of_messages on idempotency_ledger (at) where saga_id is null;

create table outbox (
    id              bigint generated always as identity primary key with (fillfactor = 50),
    lock            bigint           not null default 0,
    retry_of        bigint,
    -- Nothing where it is on its way or settled, or waits behind another one of its ordering key.
    due_at          timestamptz,
    created_at      timestamptz      not null,
    updated_at      timestamptz      not null,
    locked_at       timestamptz,
    leased_until    timestamptz,
    expires_at      timestamptz,
    attempts        integer          not null default 0,
    in_doubt        boolean          not null default false,
    -- Whoever wrote it has counted it. Everything else is counted by whoever takes it first.
    counted         boolean          not null default false,
    status          text collate "C" not null default 'pending'
        check (status in ('pending', 'sending', 'failed', 'succeeded', 'aborted')),
    topic           text collate "C" not null,
    idempotency_key text collate "C" not null,
    ordering_key    text collate "C",
    locked_by       text,
    request_digest  bytea check (octet_length(request_digest) = 32),
    payload         text             not null,
    last_error_code text,
    last_error_msg  text
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- Every change of a message is a new entry in all of these. So there are few of them, where entries are many there is room
-- for those to come, and what tells entries apart comes first.
create unique index uq_outbox_idempo on outbox (idempotency_key, topic) with (fillfactor = 50) where retry_of is null;
create unique index uq_outbox_retry on outbox (retry_of) where retry_of is not null;
create index idx_outbox_status on outbox (status, id);
create index idx_outbox_locked_at on outbox (locked_at) where locked_at is not null;
create index outbox_due on outbox (topic, due_at, id) where due_at is not null;
create index outbox_expiring on outbox (expires_at)
    where expires_at is not null and status in ('pending', 'failed');
create index outbox_unsent_in_order on outbox (topic, ordering_key, id)
    where ordering_key is not null and status in ('pending', 'sending', 'failed');
create index outbox_topic on outbox (topic, status, id) where status <> 'sending';
create index outbox_alerts on outbox (id) where topic = 'backstitch.alerts';
create index outbox_retries on outbox (topic, idempotency_key) where retry_of is not null;

create trigger outbox_settled_never_changes
    before update on outbox
    for each row
    when (old.status in ('succeeded', 'aborted'))
    execute function refuse('the message is settled: it is never sent again');

-- A document that jsonb cannot hold is shown as the text that it is.
create function as_jsonb(document text) returns jsonb
    language plpgsql immutable parallel safe strict
    set search_path = pg_catalog, pg_temp
as $$
begin
    return document::jsonb;
exception when data_exception then
    return to_jsonb(document);
end;
$$;

-- Seed 003's table: the order requests. One that failed and is due again is pending.
create view outbox_orders as
select
    id,
    created_at,
    updated_at,
    idempotency_key,
    as_jsonb(payload) as order_request_json,
    encode(request_digest, 'hex') as request_digest,
    case when status = 'failed' and due_at <= clock_timestamp() then 'pending' else status end as status,
    attempts,
    last_error_code,
    last_error_msg,
    locked_by,
    locked_at,
    expires_at
from outbox
where topic = 'orders';

-- A job that is given up, by a report or by its leases, is told in the same transaction.
create function tell_given_up() returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    insert into $schema.outbox (topic, idempotency_key, payload, due_at, created_at, updated_at)
    values (
        'backstitch.alerts',
        'job:' || new.id,
        (new.alert::jsonb || jsonb_build_object('error', new.last_error))::text,
        $schema.clock(),
        $schema.clock(),
        $schema.clock()
    )
    on conflict do nothing;
    return null;
end;
$$;

create trigger jobs_given_up_are_told
    after update of status on jobs
    for each row
    when (new.status = 'Failed' and new.alert is not null)
    execute function tell_given_up();

-- A version 7 UUID: milliseconds since 1970 in the first 48 bits, randomness in the rest. Version and variant
-- bits come with gen_random_uuid; turning version 4 into 7 sets two bits.
create function uuid_v7() returns uuid
    language sql volatile parallel safe
    set search_path = pg_catalog, pg_temp
as $$
    select encode(
        set_bit(
            set_bit(
                overlay(
                    uuid_send(gen_random_uuid())
                    placing substring(int8send(floor(extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
                    from 1 for 6
                ),
                52, 1
            ),
            53, 1
        ),
        'hex'
    )::uuid
$$;

-- One spelling for every spelling of a document: no spaces, keys in order, no zeros at the end of a fraction. The
-- same one as the library's, but for numbers that no double holds exactly and those written with an exponent.
create function canonical(document jsonb) returns text
    language sql immutable parallel safe strict
    set search_path = pg_catalog, pg_temp
as $$
    select case jsonb_typeof(document)
        when 'object' then (
            select concat(
                '{',
                string_agg(
                    to_json(m.key)::text || ':' || $schema.canonical(m.value), ',' order by m.key collate "C"
                ),
                '}'
            )
            from jsonb_each(document) as m
        )
        when 'array' then (
            select concat('[', string_agg($schema.canonical(m.value), ',' order by m.place), ']')
            from jsonb_array_elements(document) with ordinality as m (value, place)
        )
        when 'number' then (
            select case
                when scale(m.number) = 0 then m.number::text
                when scale(trim_scale(m.number)) = 0 then trim_scale(m.number)::text || '.0'
                else trim_scale(m.number)::text
            end
            from (select document::numeric) as m (number)
        )
        else document::text
    end
$$;

-- What tells the same request from another one. A document that cannot be looked into is its own only spelling.
create function digest(document text) returns bytea
    language plpgsql immutable parallel safe strict
    set search_path = pg_catalog, pg_temp
as $$
begin
    return sha256(convert_to($schema.canonical(document::jsonb), 'UTF8'));
exception when data_exception then
    return sha256(convert_to(document, 'UTF8'));
end;
$$;

-- Starts a saga in the caller's transaction: it exists if and only if that transaction commits. It runs with the
-- rights of the schema's owner, so a program needs no more than USAGE on the schema and EXECUTE on this function.
create function start(
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

-- The form of a document in RFC 8785: keys in order, no spaces, numbers as the shortest text of a double. The order is that
-- of UTF-16, which has what lies beyond the first 65536 characters before the last 8192 of these: so those are put behind
-- the last character of all.
create function jcs(document jsonb) returns text
    language sql immutable parallel safe strict
    set search_path = pg_catalog, pg_temp
    set extra_float_digits = 1
as $$
    select case jsonb_typeof(document)
        when 'object' then (
            select concat(
                '{',
                string_agg(
                    to_json(m.key)::text || ':' || $schema.jcs(m.value), ','
                    order by regexp_replace(
                        replace(m.key, chr(1114111), chr(1114111) || chr(1)),
                        '([\uE000-\uFFFF])',
                        chr(1114111) || chr(2) || '\1',
                        'g'
                    ) collate "C"
                ),
                '}'
            )
            from jsonb_each(document) as m
        )
        when 'array' then (
            select concat('[', string_agg($schema.jcs(m.value), ',' order by m.place), ']')
            from jsonb_array_elements(document) with ordinality as m (value, place)
        )
        when 'number' then (
            select case
                when m.number = 0 then '0'
                when abs(m.number) >= 1e-6 and abs(m.number) < 1e21 then trim_scale(m.number::text::numeric)::text
                else regexp_replace(m.number::text, 'e([+-])0', 'e\1')
            end
            from (select document::text::float8) as m (number)
        )
        else document::text
    end
$$;

-- Puts a message into the outbox in the caller's transaction, and its key into the ledger. The same key with the same
-- payload is the same message; either way the answer is its number. With another payload it is refused.
create function publish(
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

-- A role gets these one by one: GRANT USAGE ON SCHEMA $schema, GRANT EXECUTE ON FUNCTION $schema.start.
revoke execute on function start(text, json, text, text, jsonb, timestamptz, boolean) from public;
revoke execute on function publish(text, text, jsonb, text, timestamptz, boolean) from public;
