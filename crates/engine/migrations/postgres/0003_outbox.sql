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
);

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

create table outbox (
    id              bigint generated always as identity primary key,
    lock            bigint           not null default 0,
    due_at          timestamptz      not null,
    created_at      timestamptz      not null,
    locked_at       timestamptz,
    attempts        integer          not null default 0,
    status          text collate "C" not null default 'pending'
        check (status in ('pending', 'sending', 'failed', 'sent', 'aborted')),
    topic           text collate "C" not null,
    idempotency_key text collate "C" not null,
    ordering_key    text collate "C",
    payload         text             not null,
    last_error      text,
    unique (topic, idempotency_key)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

create index outbox_due on outbox (due_at, id) where status in ('pending', 'failed');
create index outbox_sending on outbox (locked_at) where status = 'sending';
create index outbox_unsent on outbox (created_at) where status in ('pending', 'sending', 'failed');
create index outbox_unsent_in_order on outbox (topic, ordering_key, id)
    where ordering_key is not null and status in ('pending', 'sending', 'failed');
create index outbox_alerts on outbox (id) where topic = 'backstitch.alerts';

create trigger outbox_settled_never_changes
    before update on outbox
    for each row
    when (old.status in ('sent', 'aborted'))
    execute function refuse('the message is settled: it is never sent again');

-- A job that is given up, by a report or by its leases, is told in the same transaction.
create function tell_given_up() returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    insert into backstitch.outbox (topic, idempotency_key, payload, due_at, created_at)
    values (
        'backstitch.alerts',
        'job:' || new.id,
        (new.alert::jsonb || jsonb_build_object('error', new.last_error))::text,
        backstitch.clock(),
        backstitch.clock()
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
                    to_json(m.key)::text || ':' || backstitch.canonical(m.value), ',' order by m.key collate "C"
                ),
                '}'
            )
            from jsonb_each(document) as m
        )
        when 'array' then (
            select concat('[', string_agg(backstitch.canonical(m.value), ',' order by m.place), ']')
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
    return sha256(convert_to(backstitch.canonical(document::jsonb), 'UTF8'));
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
    set search_path = pg_catalog, backstitch, pg_temp
as $$
#variable_conflict use_variable
declare
    saga   uuid        := backstitch.uuid_v7();
    moment timestamptz := backstitch.clock();
    given  text        := coalesce(input::text, 'null');
    latest integer;
    excess record;
    claim  record;
begin
    select d.active into latest from backstitch.declared d where d.name = definition;
    if not found then
        select max(d.version) into latest from backstitch.definitions d where d.name = definition;
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

    if idempotency_key is not null then
        insert into backstitch.idempotency_ledger (scope, key, digest, saga_id, at)
        values ('saga/' || definition, idempotency_key, backstitch.digest(given), saga, moment)
        on conflict do nothing;
        if not found then
            select l.saga_id, l.at, l.digest = backstitch.digest(given) as same into claim
            from backstitch.idempotency_ledger l
            where l.scope = 'saga/' || definition and l.key = idempotency_key;
            if claim.same then
                return claim.saga_id;
            end if;
            raise exception 'the idempotency key "%" was first used for another input, at %, and started saga %',
                idempotency_key, claim.at, claim.saga_id
                using errcode = 'unique_violation', hint = 'Use a new key for a new request.';
        end if;
    end if;

    insert into backstitch.sagas (id, created_at, updated_at, wake_at, version, status, definition, correlation_id)
    values (saga, moment, moment, moment, latest, 'pending', definition, correlation_id);
    insert into backstitch.saga_events (at, saga_id, seq, type, data)
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
    insert into backstitch.saga_attributes (saga_id, name, value)
    select saga, a.key, a.value from jsonb_each_text(attributes) a;

    if notify then
        perform pg_notify('backstitch_start', saga::text);
    end if;
    return saga;
end;
$$;

-- Puts a message into the outbox in the caller's transaction. A key that its topic has seen keeps the first
-- message; either way the answer is the number of the message that is kept.
create function publish(
    topic           text,
    idempotency_key text,
    payload         jsonb,
    ordering_key    text default null
) returns bigint
    language plpgsql volatile security definer
    set search_path = pg_catalog, backstitch, pg_temp
as $$
#variable_conflict use_variable
declare
    kept bigint;
begin
    insert into backstitch.outbox as o (topic, idempotency_key, ordering_key, payload, due_at, created_at)
    values (topic, idempotency_key, ordering_key, payload::text, backstitch.clock(), backstitch.clock())
    on conflict do nothing
    returning o.id into kept;
    if kept is null then
        select o.id into kept
        from backstitch.outbox o
        where o.topic = topic and o.idempotency_key = idempotency_key;
    end if;
    return kept;
end;
$$;

-- A role gets these one by one: GRANT USAGE ON SCHEMA backstitch, GRANT EXECUTE ON FUNCTION backstitch.start.
revoke execute on function start(text, json, text, text, jsonb, timestamptz, boolean) from public;
revoke execute on function publish(text, text, jsonb, text) from public;
