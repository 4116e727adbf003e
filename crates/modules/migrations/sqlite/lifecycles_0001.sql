-- Lifecycles: machines that were declared, and where each thing stands that they describe. The log of an instance is in
-- saga_events, under its id.

-- Versions of machines. They never change.
create table lifecycle_machines (
    name       text    not null,
    version    integer not null check (version > 0),
    body       text    not null,
    created_at integer not null,
    primary key (name, version)
) strict, without rowid;

create trigger lifecycle_machines_never_change before update on lifecycle_machines
begin
    select raise(abort, 'a version of a machine never changes: declare a new version');
end;

-- The states that an instance of a version can be in.
create table lifecycle_states (
    machine  text    not null,
    version  integer not null,
    state    text    not null,
    -- The order in which they are written.
    place    integer not null,
    terminal integer not null check (terminal in (0, 1)),
    primary key (machine, version, state, terminal),
    unique (machine, version, state),
    foreign key (machine, version) references lifecycle_machines (name, version)
) strict, without rowid;

create trigger lifecycle_states_never_change before update on lifecycle_states
begin
    select raise(abort, 'a version of a machine never changes: declare a new version');
end;

-- Which version new instances take, and which one waits to be applied.
create table lifecycle_declared (
    name       text    not null primary key,
    active     integer,
    staged     integer,
    changed_at integer not null,
    foreign key (name, active) references lifecycle_machines (name, version),
    foreign key (name, staged) references lifecycle_machines (name, version)
) strict, without rowid;

create table lifecycles (
    id             blob    not null primary key check (length(id) = 16),
    machine        text    not null,
    key            text    not null,
    version        integer not null,
    state          text    not null,
    ended          integer not null check (ended in (0, 1)),
    -- The number of its newest event, and of the one that led into its state.
    seq            integer not null check (seq > 0),
    entry          integer not null check (entry > 0),
    attempt        integer not null check (attempt > 0),
    failures       integer not null default 0 check (failures >= 0),
    interruptions  integer not null default 0 check (interruptions >= 0),
    -- The newest of those who took the action upon them.
    token          integer not null default 0 check (token >= 0),
    -- Who performs the action at the moment.
    holder         text,
    correlation_id text,
    error_kind     text,
    last_error     text,
    input          text,
    created_at     integer not null,
    updated_at     integer not null,
    entered_at     integer not null,
    -- When somebody has to look after the action of the state: to perform it, or because whoever does is late.
    due_at         integer,
    -- From then on it has been in its state for too long.
    stuck_at       integer,
    unique (machine, key),
    foreign key (machine, version, state, ended) references lifecycle_states (machine, version, state, terminal),
    -- What is over is due for nothing, and nobody has it.
    check (not ended or (due_at is null and holder is null and stuck_at is null)),
    -- Only what failed carries an error.
    check (state = 'failed' or (error_kind is null and last_error is null))
) strict, without rowid;

create index lifecycles_state on lifecycles (machine, state, id);
create index lifecycles_machine on lifecycles (machine, id);
create index lifecycles_correlation_id on lifecycles (correlation_id, id) where correlation_id is not null;
create index lifecycles_due on lifecycles (due_at) where due_at is not null;
create index lifecycles_stuck on lifecycles (stuck_at) where stuck_at is not null;
create index lifecycles_version on lifecycles (machine, version) where not ended;

-- It fails and does not abort, which would make every update keep a journal of its own to go back to.
create trigger lifecycles_ended_never_change before update on lifecycles
when old.ended
begin
    select raise(fail, 'it is at its end: its row does not change any more');
end;

create trigger lifecycles_origin_never_changes
before update of id, machine, key, version, created_at on lifecycles
begin
    select raise(abort, 'what it was started as never changes');
end;

create trigger lifecycles_active_never_go before delete on lifecycles
when not old.ended
begin
    select raise(abort, 'it is not at its end: only what is can be deleted');
end;

create trigger saga_events_outlive_their_lifecycle before delete on saga_events
when exists (select 1 from lifecycles where id = old.saga_id)
begin
    select raise(abort, 'saga_events is append-only: a log can go only after the row it is the log of');
end;

-- Requests that nobody could make sense of, kept as they came.
create table lifecycle_dead_letters (
    id     integer primary key autoincrement,
    at     integer not null,
    source text    not null,
    body   blob    not null,
    reason text    not null,
    -- Tells a message that comes twice.
    mark   text    not null unique
) strict;

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
