-- Webhooks: events, who wants to hear of them, a delivery saga for each such pair, and what came of its attempts. The
-- jobs of deliveries stand in the engine's own table.

create table webhook_events (
    id         integer primary key autoincrement,
    -- The client's own id, or one made for it.
    uid        text    not null constraint uniq_event_uid unique,
    type       text    not null check (type <> ''),
    -- The message id by which receivers know it, whenever and however often it is sent.
    webhook_id text    not null,
    digest     blob    not null check (length(digest) = 32),
    created_at integer not null,
    -- Exactly as it was given.
    payload    text    not null
) strict;

create index idx_event_created on webhook_events (created_at);

create table webhook_subscriptions (
    id                    integer primary key autoincrement,
    url                   text    not null check (url <> ''),
    event_types           text    not null,
    -- Their names, and their values encrypted before they come here.
    headers               text    not null,
    max_retry_limit       integer not null check (max_retry_limit > 0),
    base_delay_ms         integer not null check (base_delay_ms > 0),
    max_delay_ms          integer not null check (max_delay_ms >= base_delay_ms),
    timeout_ms            integer not null check (timeout_ms > 0),
    max_concurrency       integer not null check (max_concurrency > 0),
    -- Requests a second; without it there is no limit.
    rate_limit            integer check (rate_limit > 0),
    -- Encrypted before they come here.
    secret                blob    not null,
    previous_secret       blob,
    previous_secret_until integer,
    disabled_at           integer,
    disabled_reason       text,
    deleted_at            integer,
    created_at            integer not null,
    updated_at            integer not null,
    check ((disabled_at is null) = (disabled_reason is null)),
    check ((previous_secret is null) = (previous_secret_until is null))
) strict;

-- Ids are counted up before their rows are written: what is encrypted in a row is bound to its id.
insert into sqlite_sequence (name, seq) values ('webhook_subscriptions', 0);

create index idx_subscription_disabled on webhook_subscriptions (id)
    where disabled_at is not null and deleted_at is null;

-- Which subscriptions a type of event goes to, found by every pattern that the type could match. Those of a deleted
-- subscription are gone.
create table webhook_subscription_types (
    pattern         text    not null,
    subscription_id integer not null,
    primary key (pattern, subscription_id)
) strict, without rowid;

create index idx_subscription_types on webhook_subscription_types (subscription_id);

create trigger webhook_subscriptions_created after insert on webhook_subscriptions
begin
    insert into webhook_subscription_types (pattern, subscription_id)
    select distinct value, new.id from json_each(new.event_types);
end;

create trigger webhook_subscriptions_changed after update of event_types, deleted_at on webhook_subscriptions
begin
    delete from webhook_subscription_types where subscription_id = new.id;
    insert into webhook_subscription_types (pattern, subscription_id)
    select distinct value, new.id from json_each(new.event_types) where new.deleted_at is null;
end;

create trigger webhook_subscriptions_deleted_never_change before update on webhook_subscriptions
when old.deleted_at is not null
begin
    select raise(abort, 'the subscription is deleted: it does not change any more');
end;

create table webhook_delivery_sagas (
    id               integer primary key autoincrement,
    event_id         integer not null,
    subscription_id  integer not null,
    status           text    not null default 'Pending'
        check (
            status = 'Pending' or status = 'InProgress' or status = 'PendingRetry' or status = 'Completed'
            or status = 'DeadLettered'
        ),
    attempt_count    integer not null default 0 check (attempt_count >= 0),
    next_attempt_at  integer not null,
    final_error_code text check (length(final_error_code) <= 100),
    created_at       integer not null,
    updated_at       integer not null,
    -- The newest attempt, under way or over.
    job_id           integer,
    webhook_id       text    not null,
    -- The dead letter that this one was made from.
    requeue_of       integer,
    -- What the replay was called that this one was made by.
    replay_id        text,
    check (status <> 'InProgress' or job_id is not null),
    check (status <> 'PendingRetry' or (attempt_count > 0 and final_error_code is not null)),
    check (status <> 'Completed' or (attempt_count > 0 and final_error_code is null)),
    check (requeue_of is null or replay_id is null)
) strict;

create index idx_saga_event on webhook_delivery_sagas (event_id, subscription_id);
create index idx_saga_status_retry on webhook_delivery_sagas (status, next_attempt_at);
create index idx_saga_status on webhook_delivery_sagas (status);
create index idx_saga_subscription on webhook_delivery_sagas (subscription_id);
create unique index uniq_saga_event_subscription on webhook_delivery_sagas (event_id, subscription_id)
    where requeue_of is null and replay_id is null;
create unique index uniq_saga_requeue on webhook_delivery_sagas (requeue_of) where requeue_of is not null;
create unique index uniq_saga_replay on webhook_delivery_sagas (replay_id, event_id, subscription_id)
    where replay_id is not null;

create table dead_letters (
    -- One for each delivery that was given up, known by its number.
    saga_id          integer primary key,
    event_id         integer not null,
    subscription_id  integer not null,
    attempt_count    integer not null,
    final_error_code text,
    webhook_id       text    not null,
    created_at       integer not null
) strict;

create index idx_dead_letter_subscription on dead_letters (subscription_id);
create index idx_dead_letter_created on dead_letters (created_at);
create index idx_dead_letter_event on dead_letters (event_id);
create index idx_dead_letter_code on dead_letters (final_error_code);

create table webhook_attempts (
    saga_id       integer not null,
    job_id        integer not null,
    number        integer not null check (number > 0),
    status        text    not null check (status = 'Completed' or status = 'Failed'),
    -- Where the request went, and the names of its headers, with commas between.
    url           text,
    headers       text,
    response_code integer,
    -- The start of what the receiver answered.
    body          text,
    duration_ms   integer check (duration_ms >= 0),
    error_code    text,
    error         text,
    started_at    integer,
    finished_at   integer not null,
    primary key (saga_id, job_id)
) strict, without rowid;

-- What nobody may do, whatever program asks.

create trigger webhook_events_never_change before update on webhook_events
begin
    select raise(abort, 'an event never changes');
end;

create trigger webhook_attempts_never_change before update on webhook_attempts
begin
    select raise(abort, 'an attempt that was made never changes');
end;

create trigger dead_letters_never_change before update on dead_letters
begin
    select raise(abort, 'a dead letter never changes: requeue it as a new delivery');
end;

create trigger webhook_delivery_sagas_begin_pending before insert on webhook_delivery_sagas
when
    new.status <> 'Pending' or new.attempt_count <> 0 or new.job_id is not null
    or new.final_error_code is not null
begin
    select raise(abort, 'a delivery begins Pending, with no attempt made');
end;

create trigger webhook_delivery_sagas_ended_never_change before update on webhook_delivery_sagas
when old.status in ('Completed', 'DeadLettered')
begin
    select raise(abort, 'the delivery is at its end: its row does not change any more');
end;

create trigger webhook_delivery_sagas_follow_their_machine before update on webhook_delivery_sagas
when
    case old.status
        when 'InProgress' then
            new.status not in ('Completed', 'PendingRetry', 'DeadLettered')
            or new.attempt_count <> old.attempt_count + 1
        when 'Completed' then false
        when 'DeadLettered' then false
        else
            new.status not in ('InProgress', 'DeadLettered') or new.attempt_count <> old.attempt_count
    end
begin
    select raise(abort, 'no such step leads from there: only results count, each once');
end;

create trigger webhook_delivery_sagas_origin_never_changes
before update of id, event_id, subscription_id, webhook_id, requeue_of, replay_id, created_at
on webhook_delivery_sagas
begin
    select raise(abort, 'what a delivery was made from never changes');
end;

create trigger webhook_delivery_sagas_live_never_go before delete on webhook_delivery_sagas
when old.status not in ('Completed', 'DeadLettered')
begin
    select raise(abort, 'the delivery is live: only one at its end can be deleted');
end;

-- The dead-letter module's own hand in the transaction that gives a delivery up.
create trigger webhook_delivery_sagas_dead_letters after update of status on webhook_delivery_sagas
when new.status = 'DeadLettered'
begin
    insert into dead_letters (
        saga_id, event_id, subscription_id, attempt_count, final_error_code, webhook_id, created_at
    )
    values (
        new.id, new.event_id, new.subscription_id, new.attempt_count, new.final_error_code, new.webhook_id,
        new.updated_at
    );
end;
