-- Sagas: their definitions, the nodes that run them, their rows, logs and inboxes.
--
-- Text that is compared is collated "C": bytes decide, on every server and after every upgrade of its locales.
-- Columns stand widest first, because a row is padded wherever a wide column follows a narrow one.

-- The one clock that leases and due times are judged by. A plan has the plain call in its place; a test that has to
-- move time can put another clock here.
create function clock() returns timestamptz
    language sql stable parallel safe
as $$
    select pg_catalog.now()
$$;

create table definitions (
    name        text collate "C" not null,
    version     integer          not null,
    fingerprint bigint           not null,
    created_at  timestamptz      not null default clock(),
    body        text             not null,
    primary key (name, version)
);

-- Definitions that were written down as data: which version new sagas take, and which one waits to be applied. Those that
-- came with a program's code have no row here.
create table declared (
    name       text collate "C" not null primary key,
    changed_at timestamptz      not null default clock(),
    active     integer,
    staged     integer,
    foreign key (name, active) references definitions (name, version),
    foreign key (name, staged) references definitions (name, version)
);

-- One row for each life of a process. A life that is over has no row, and a number is never given twice.
create table nodes (
    epoch        bigint generated always as identity primary key,
    lease_ms     bigint      not null check (lease_ms > 0),
    started_at   timestamptz not null default clock(),
    heartbeat_at timestamptz not null default clock(),
    name         text        not null
);

create table sagas (
    id             uuid             not null primary key,
    created_at     timestamptz      not null,
    updated_at     timestamptz      not null,
    owner          bigint,
    wake_at        timestamptz,
    inbox_seq      integer          not null default 0,
    version        integer          not null,
    paused         boolean          not null default false,
    status         text collate "C" not null
        check (status in ('pending', 'running', 'succeeded', 'failed', 'compensating', 'compensated')),
    definition     text collate "C" not null,
    failed_step    text,
    correlation_id text collate "C",
    -- A saga that came to a good end is nobody's and is due for nothing.
    check (status not in ('succeeded', 'compensated') or (owner is null and wake_at is null))
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- The newest first is the primary key read backwards; these are the same for one status, definition or id.
create index sagas_status on sagas (status, id);
create index sagas_definition on sagas (definition, id);
create index sagas_correlation_id on sagas (correlation_id, id) where correlation_id is not null;
-- What a node may take over. The definition comes first: sagas of definitions it lacks cost it nothing.
create index sagas_unowned_due on sagas (definition, version, wake_at)
    where owner is null and wake_at is not null;
create index sagas_owned on sagas (definition, version, owner) where owner is not null;
-- What waits for a word: paused, or such that nothing will ever move it, which is what nobody wants to find here.
create index sagas_adrift on sagas (paused, definition, version, id)
    where owner is null and wake_at is null and status in ('pending', 'running', 'compensating');

-- The truth. Whoever appends a number first has decided; the primary key is the fence.
create table saga_events (
    at      timestamptz      not null,
    saga_id uuid             not null,
    seq     integer          not null check (seq > 0),
    attempt integer,
    type    text collate "C" not null,
    step    text collate "C",
    data    text,
    primary key (saga_id, seq)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1);

create table saga_attributes (
    saga_id uuid             not null,
    name    text collate "C" not null,
    value   text collate "C" not null,
    primary key (name, value, saga_id)
) with (autovacuum_vacuum_scale_factor = 0.05);

create index saga_attributes_saga on saga_attributes (saga_id);

-- Short-lived rows: small thresholds keep the table as small as what waits in it.
create table saga_inbox (
    at      timestamptz not null,
    saga_id uuid        not null,
    seq     integer     not null,
    body    text        not null,
    primary key (saga_id, seq)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- What nobody may do, whatever program asks. One function says no in the words of each trigger.

create function refuse() returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception '%', tg_argv[0] using errcode = 'restrict_violation', table = tg_table_name;
end;
$$;

create trigger definitions_never_change
    before update on definitions
    for each row
    execute function refuse('a version of a definition never changes: register a new version');

create trigger saga_events_never_change
    before update or truncate on saga_events
    for each statement
    execute function refuse('saga_events is append-only: an event is never changed');

create function refuse_while_saga_exists() returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (select from $schema.sagas where id = old.saga_id) then
        raise exception 'saga_events is append-only: a log can go only after the row of its saga'
            using errcode = 'restrict_violation', table = tg_table_name;
    end if;
    return old;
end;
$$;

create trigger saga_events_outlive_their_saga
    before delete on saga_events
    for each row
    execute function refuse_while_saga_exists();

create trigger sagas_ended_never_change
    before update on sagas
    for each row
    when (
        old.status in ('succeeded', 'compensated')
        or (old.status = 'failed' and new.status <> 'compensating')
    )
    execute function refuse('the saga is at its end: its row does not change any more');

create trigger sagas_origin_never_changes
    before update of id, definition, version, correlation_id, created_at on sagas
    for each row
    execute function refuse('what a saga was started with never changes');

create trigger sagas_active_never_go
    before delete on sagas
    for each row
    when (old.status not in ('succeeded', 'failed', 'compensated'))
    execute function refuse('the saga is active: only a saga at its end can be deleted');
