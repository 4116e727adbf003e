-- Sagas: their definitions, the nodes that run them, their rows, logs and inboxes.
--
-- Times are microseconds since 1970, UTC. Ids are the 16 bytes of a UUID. Tables without rowid keep a row beside
-- its key, so that a log is read and written in one place.

create table definitions (
    name        text    not null,
    version     integer not null,
    fingerprint integer not null,
    body        text    not null,
    created_at  integer not null,
    primary key (name, version)
) strict, without rowid;

-- Definitions that were written down as data: which version new sagas take, and which one waits to be applied. Those that
-- came with a program's code have no row here.
create table declared (
    name       text    not null primary key,
    active     integer,
    staged     integer,
    changed_at integer not null,
    foreign key (name, active) references definitions (name, version),
    foreign key (name, staged) references definitions (name, version)
) strict, without rowid;

-- One row for each life of a process. A life that is over has no row, and a number is never given twice.
create table nodes (
    epoch        integer primary key autoincrement,
    name         text    not null,
    started_at   integer not null,
    heartbeat_at integer not null,
    lease_ms     integer not null check (lease_ms > 0)
) strict;

create table sagas (
    id             blob    not null primary key check (length(id) = 16),
    definition     text    not null,
    version        integer not null,
    -- Not `in (…)`: for more than two values SQLite would build a table of them at every insert.
    status         text    not null
        check (
            status = 'pending' or status = 'running' or status = 'succeeded' or status = 'failed'
            or status = 'compensating' or status = 'compensated'
        ),
    paused         integer not null default 0 check (paused in (0, 1)),
    owner          integer,
    wake_at        integer,
    inbox_seq      integer not null default 0 check (inbox_seq >= 0),
    failed_step    text,
    correlation_id text,
    created_at     integer not null,
    updated_at     integer not null,
    -- A saga that came to a good end is nobody's and is due for nothing.
    check (status not in ('succeeded', 'compensated') or (owner is null and wake_at is null))
) strict, without rowid;

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
    where owner is null
        and wake_at is null
        and (status = 'pending' or status = 'running' or status = 'compensating');

-- The truth. Whoever appends a number first has decided; the primary key is the fence.
create table saga_events (
    saga_id blob    not null,
    seq     integer not null check (seq > 0),
    at      integer not null,
    type    text    not null,
    step    text,
    attempt integer,
    data    text,
    primary key (saga_id, seq)
) strict, without rowid;

create table saga_attributes (
    name    text not null,
    value   text not null,
    saga_id blob not null,
    primary key (name, value, saga_id)
) strict, without rowid;

create table saga_inbox (
    saga_id blob    not null,
    seq     integer not null check (seq > 0),
    body    text    not null,
    at      integer not null,
    primary key (saga_id, seq)
) strict, without rowid;

-- What nobody may do, whatever program asks.

create trigger definitions_never_change before update on definitions
begin
    select raise(abort, 'a version of a definition never changes: register a new version');
end;

create trigger saga_events_never_change before update on saga_events
begin
    select raise(abort, 'saga_events is append-only: an event is never changed');
end;

create trigger saga_events_outlive_their_saga before delete on saga_events
when exists (select 1 from sagas where id = old.saga_id)
begin
    select raise(abort, 'saga_events is append-only: a log can go only after the row of its saga');
end;

-- It fails and does not abort, which would make every update keep a journal of its own to go back to.
create trigger sagas_ended_never_change before update on sagas
when old.status in ('succeeded', 'compensated') or (old.status = 'failed' and new.status <> 'compensating')
begin
    select raise(fail, 'the saga is at its end: its row does not change any more');
end;

create trigger sagas_origin_never_changes
before update of id, definition, version, correlation_id, created_at on sagas
begin
    select raise(abort, 'what a saga was started with never changes');
end;

create trigger sagas_active_never_go before delete on sagas
when old.status not in ('succeeded', 'failed', 'compensated')
begin
    select raise(abort, 'the saga is active: only a saga at its end can be deleted');
end;
