-- Lifecycles: machines that were declared, and where each thing stands that they describe. The log of an instance is in
-- saga_events, under its id.

-- Versions of machines. They never change.
create table lifecycle_machines (
    name       text collate "C" not null,
    version    integer          not null check (version > 0),
    created_at timestamptz      not null,
    body       text             not null,
    primary key (name, version)
);

create trigger lifecycle_machines_never_change
    before update on lifecycle_machines
    for each row
    execute function refuse('a version of a machine never changes: declare a new version');

-- The states that an instance of a version can be in.
create table lifecycle_states (
    machine  text collate "C" not null,
    version  integer          not null,
    state    text collate "C" not null,
    -- The order in which they are written.
    place    integer          not null,
    terminal boolean          not null,
    primary key (machine, version, state, terminal),
    unique (machine, version, state),
    foreign key (machine, version) references lifecycle_machines (name, version)
);

create trigger lifecycle_states_never_change
    before update on lifecycle_states
    for each row
    execute function refuse('a version of a machine never changes: declare a new version');

-- Which version new instances take, and which one waits to be applied.
create table lifecycle_declared (
    name       text collate "C" not null primary key,
    changed_at timestamptz      not null,
    active     integer,
    staged     integer,
    foreign key (name, active) references lifecycle_machines (name, version),
    foreign key (name, staged) references lifecycle_machines (name, version)
);

create table lifecycles (
    id             uuid             not null primary key,
    created_at     timestamptz      not null,
    updated_at     timestamptz      not null,
    entered_at     timestamptz      not null,
    -- When somebody has to look after the action of the state: to perform it, or because whoever does is late.
    due_at         timestamptz,
    -- From then on it has been in its state for too long.
    stuck_at       timestamptz,
    -- The newest of those who took the action upon them.
    token          bigint           not null default 0,
    version        integer          not null,
    -- The number of its newest event, and of the one that led into its state.
    seq            integer          not null check (seq > 0),
    entry          integer          not null check (entry > 0),
    attempt        integer          not null check (attempt > 0),
    failures       integer          not null default 0 check (failures >= 0),
    interruptions  integer          not null default 0 check (interruptions >= 0),
    ended          boolean          not null,
    machine        text collate "C" not null,
    key            text collate "C" not null,
    state          text collate "C" not null,
    correlation_id text collate "C",
    error_kind     text collate "C",
    last_error     text,
    -- Who performs the action at the moment.
    holder         text,
    input          text,
    unique (machine, key),
    foreign key (machine, version, state, ended) references lifecycle_states (machine, version, state, terminal),
    -- What is over is due for nothing, and nobody has it.
    check (not ended or (due_at is null and holder is null and stuck_at is null)),
    -- Only what failed carries an error.
    check (state = 'failed' or (error_kind is null and last_error is null))
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

create index lifecycles_state on lifecycles (machine, state, id);
create index lifecycles_machine on lifecycles (machine, id);
create index lifecycles_correlation_id on lifecycles (correlation_id, id) where correlation_id is not null;
create index lifecycles_due on lifecycles (due_at) where due_at is not null;
create index lifecycles_stuck on lifecycles (stuck_at) where stuck_at is not null;
create index lifecycles_version on lifecycles (machine, version) where not ended;

create trigger lifecycles_ended_never_change
    before update on lifecycles
    for each row
    when (old.ended)
    execute function refuse('it is at its end: its row does not change any more');

create trigger lifecycles_origin_never_changes
    before update of id, machine, key, version, created_at on lifecycles
    for each row
    execute function refuse('what it was started as never changes');

create trigger lifecycles_active_never_go
    before delete on lifecycles
    for each row
    when (not old.ended)
    execute function refuse('it is not at its end: only what is can be deleted');

create function refuse_while_lifecycle_exists() returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (select from $schema.lifecycles where id = old.saga_id) then
        raise exception 'saga_events is append-only: a log can go only after the row it is the log of'
            using errcode = 'restrict_violation', table = tg_table_name;
    end if;
    return old;
end;
$$;

create trigger saga_events_outlive_their_lifecycle
    before delete on saga_events
    for each row
    execute function refuse_while_lifecycle_exists();

-- Requests that nobody could make sense of, kept as they came.
create table lifecycle_dead_letters (
    id      bigint generated always as identity primary key,
    at      timestamptz not null,
    source  text        not null,
    body    bytea       not null,
    reason  text        not null,
    -- Tells a message that comes twice.
    mark    text collate "C" not null unique
);

-- Seed 004's table: the sites that are provisioned.
create view provisioning_sagas as
select
    key as site_id,
    state,
    attempt,
    correlation_id,
    last_error,
    error_kind,
    created_at,
    updated_at
from lifecycles
where machine = 'site-provisioning';
