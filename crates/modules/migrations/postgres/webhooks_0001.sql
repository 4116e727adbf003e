-- Webhooks: events, who wants to hear of them, a delivery saga for each such pair, and what came of its attempts. The
-- jobs of deliveries stand in the engine's own table.
--
-- Rows refer to each other without foreign keys: every insert would lock the row it points at, and what may go, and when,
-- is retention's to know.

create table webhook_events (
    id         bigint generated always as identity primary key,
    created_at timestamptz      not null,
    -- The client's own id, or one made for it.
    uid        text collate "C" not null constraint uniq_event_uid unique,
    type       text collate "C" not null check (type <> ''),
    -- The message id by which receivers know it, whenever and however often it is sent.
    webhook_id text collate "C" not null,
    digest     bytea            not null check (octet_length(digest) = 32),
    -- Exactly as it was given.
    payload    text             not null
);

create index idx_event_created on webhook_events (created_at, id);

create table webhook_subscriptions (
    id                    bigint generated always as identity primary key,
    created_at            timestamptz not null,
    updated_at            timestamptz not null,
    disabled_at           timestamptz,
    deleted_at            timestamptz,
    previous_secret_until timestamptz,
    base_delay_ms         bigint      not null check (base_delay_ms > 0),
    max_delay_ms          bigint      not null check (max_delay_ms >= base_delay_ms),
    timeout_ms            bigint      not null check (timeout_ms > 0),
    max_retry_limit       integer     not null check (max_retry_limit > 0),
    max_concurrency       integer     not null check (max_concurrency > 0),
    -- Requests a second; without it there is no limit.
    rate_limit            integer     check (rate_limit > 0),
    url                   text        not null check (url <> ''),
    event_types           text        not null,
    headers               text        not null,
    disabled_reason       text,
    -- Encrypted before they come here.
    secret                bytea       not null,
    previous_secret       bytea,
    check ((disabled_at is null) = (disabled_reason is null)),
    check ((previous_secret is null) = (previous_secret_until is null))
);

-- Which subscriptions a type of event goes to, found by every pattern that the type could match. Those of a deleted
-- subscription are gone.
create table webhook_subscription_types (
    subscription_id bigint           not null,
    pattern         text collate "C" not null,
    primary key (pattern, subscription_id)
);

create index idx_subscription_types on webhook_subscription_types (subscription_id);

-- Nobody else writes them, so they are always those of the subscription.
create function keep_subscription_types() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    delete from backstitch.webhook_subscription_types where subscription_id = new.id;
    insert into backstitch.webhook_subscription_types (subscription_id, pattern)
    select distinct new.id, t.pattern
    from json_array_elements_text(new.event_types::json) as t (pattern)
    where new.deleted_at is null;
    return null;
end;
$$;

create trigger webhook_subscriptions_types
    after insert or update of event_types, deleted_at on webhook_subscriptions
    for each row
    execute function keep_subscription_types();

create trigger webhook_subscriptions_deleted_never_change
    before update on webhook_subscriptions
    for each row
    when (old.deleted_at is not null)
    execute function refuse('the subscription is deleted: it does not change any more');

create type webhook_delivery_status as enum ('Pending', 'InProgress', 'PendingRetry', 'Completed', 'DeadLettered');

create table webhook_delivery_sagas (
    id               bigint generated always as identity primary key,
    event_id         bigint                  not null,
    subscription_id  bigint                  not null,
    -- The newest attempt, under way or over.
    job_id           bigint,
    -- The dead letter that this one was made from.
    requeue_of       bigint,
    next_attempt_at  timestamptz             not null,
    created_at       timestamptz             not null,
    updated_at       timestamptz             not null,
    attempt_count    integer                 not null default 0 check (attempt_count >= 0),
    status           webhook_delivery_status not null default 'Pending',
    final_error_code varchar(100),
    webhook_id       text collate "C"        not null,
    -- What the replay was called that this one was made by.
    replay_id        text collate "C",
    check (status <> 'InProgress' or job_id is not null),
    check (status <> 'PendingRetry' or (attempt_count > 0 and final_error_code is not null)),
    check (status <> 'Completed' or (attempt_count > 0 and final_error_code is null)),
    check (requeue_of is null or replay_id is null)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

create index idx_saga_event on webhook_delivery_sagas (event_id, subscription_id);
create index idx_saga_status_retry on webhook_delivery_sagas (status, next_attempt_at);
create index idx_saga_status on webhook_delivery_sagas (status);
create index idx_saga_subscription on webhook_delivery_sagas (subscription_id, id);
create unique index uniq_saga_event_subscription on webhook_delivery_sagas (event_id, subscription_id)
    where requeue_of is null and replay_id is null;
create unique index uniq_saga_requeue on webhook_delivery_sagas (requeue_of) where requeue_of is not null;
create unique index uniq_saga_replay on webhook_delivery_sagas (replay_id, event_id, subscription_id)
    where replay_id is not null;

create table dead_letters (
    -- One for each delivery that was given up, known by its number.
    saga_id          bigint           not null primary key,
    event_id         bigint           not null,
    subscription_id  bigint           not null,
    created_at       timestamptz      not null,
    attempt_count    integer          not null,
    final_error_code varchar(100),
    webhook_id       text collate "C" not null
);

create index idx_dead_letter_subscription on dead_letters (subscription_id, saga_id);

create table webhook_attempts (
    saga_id       bigint           not null,
    job_id        bigint           not null,
    started_at    timestamptz,
    finished_at   timestamptz      not null,
    duration_ms   bigint           check (duration_ms >= 0),
    number        integer          not null check (number > 0),
    response_code integer,
    status        text collate "C" not null check (status in ('Completed', 'Failed')),
    error_code    varchar(100),
    error         text,
    -- The start of what the receiver answered.
    body          text,
    primary key (saga_id, job_id)
);

-- What nobody may do, whatever program asks.

create trigger webhook_events_never_change
    before update on webhook_events
    for each row
    execute function refuse('an event never changes');

create trigger webhook_attempts_never_change
    before update on webhook_attempts
    for each row
    execute function refuse('an attempt that was made never changes');

create trigger dead_letters_never_change
    before update on dead_letters
    for each row
    execute function refuse('a dead letter never changes: requeue it as a new delivery');

create trigger webhook_delivery_sagas_begin_pending
    before insert on webhook_delivery_sagas
    for each row
    when (
        new.status <> 'Pending' or new.attempt_count <> 0 or new.job_id is not null
        or new.final_error_code is not null
    )
    execute function refuse('a delivery begins Pending, with no attempt made');

create trigger webhook_delivery_sagas_ended_never_change
    before update on webhook_delivery_sagas
    for each row
    when (old.status in ('Completed', 'DeadLettered'))
    execute function refuse('the delivery is at its end: its row does not change any more');

create trigger webhook_delivery_sagas_follow_their_machine
    before update on webhook_delivery_sagas
    for each row
    when (
        case old.status
            when 'InProgress' then
                new.status not in ('Completed', 'PendingRetry', 'DeadLettered')
                or new.attempt_count <> old.attempt_count + 1
            when 'Completed' then false
            when 'DeadLettered' then false
            else
                new.status not in ('InProgress', 'DeadLettered') or new.attempt_count <> old.attempt_count
        end
    )
    execute function refuse('no such step leads from there: only results count, each once');

create trigger webhook_delivery_sagas_origin_never_changes
    before update of id, event_id, subscription_id, webhook_id, requeue_of, replay_id, created_at
    on webhook_delivery_sagas
    for each row
    execute function refuse('what a delivery was made from never changes');

create trigger webhook_delivery_sagas_live_never_go
    before delete on webhook_delivery_sagas
    for each row
    when (old.status not in ('Completed', 'DeadLettered'))
    execute function refuse('the delivery is live: only one at its end can be deleted');

-- The dead-letter module's own hand in the transaction that gives a delivery up: whoever does that needs no right to it.
create function keep_dead_letter() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    insert into backstitch.dead_letters (
        saga_id, event_id, subscription_id, created_at, attempt_count, final_error_code, webhook_id
    )
    values (
        new.id, new.event_id, new.subscription_id, new.updated_at, new.attempt_count, new.final_error_code,
        new.webhook_id
    );
    return null;
end;
$$;

create trigger webhook_delivery_sagas_dead_letters
    after update of status on webhook_delivery_sagas
    for each row
    when (new.status = 'DeadLettered')
    execute function keep_dead_letter();

-- The roles, one for each part of the product, each with no more than it needs. They belong to the whole server, so
-- another database may have made them. Where this one's user may not, an operator makes them, calls this again, and until
-- then everything runs under the user's own rights.
create function grant_webhook_roles() returns void
    language plpgsql
    set search_path = backstitch, pg_temp
as $$
declare
    role    text;
    missing boolean := false;
begin
    perform pg_advisory_xact_lock(hashtext('backstitch webhook roles'));
    foreach role in array array[
        'backstitch_ingest', 'backstitch_orchestrator', 'backstitch_worker', 'backstitch_dead_letter',
        'backstitch_subscriptions', 'backstitch_retention'
    ] loop
        begin
            if not exists (select from pg_roles where rolname = role) then
                execute format('create role %I nologin', role);
            end if;
            if not pg_has_role(role, 'member') then
                execute format('grant %I to %I', role, current_user);
            end if;
        exception
            -- Another database of this server has just made it.
            when duplicate_object or unique_violation then null;
            when insufficient_privilege then
                missing := true;
                raise notice 'the role % cannot be made or taken: its part runs with the rights of %',
                    role, current_user;
        end;
    end loop;
    if missing then
        return;
    end if;

    grant usage on schema backstitch to
        backstitch_ingest, backstitch_orchestrator, backstitch_worker, backstitch_dead_letter,
        backstitch_subscriptions, backstitch_retention;

    grant select, insert on webhook_events, webhook_delivery_sagas to backstitch_ingest;
    grant select on webhook_subscription_types to backstitch_ingest;

    grant select, insert on webhook_delivery_sagas to backstitch_orchestrator;
    grant update (status, attempt_count, next_attempt_at, final_error_code, job_id, updated_at)
        on webhook_delivery_sagas to backstitch_orchestrator;
    grant select on webhook_events, webhook_subscriptions to backstitch_orchestrator;
    grant select, insert on jobs to backstitch_orchestrator;
    grant usage on sequence jobs_id_seq to backstitch_orchestrator;
    grant select, delete on job_results to backstitch_orchestrator;

    grant select on webhook_events, webhook_subscriptions, webhook_delivery_sagas to backstitch_worker;
    grant select on jobs to backstitch_worker;
    grant update (status, token, until, attempts, expiries, last_error) on jobs to backstitch_worker;
    grant insert on job_results, webhook_attempts to backstitch_worker;

    grant select on webhook_events, webhook_subscriptions, dead_letters to backstitch_dead_letter;
    grant select, insert on webhook_delivery_sagas to backstitch_dead_letter;

    grant select, insert, update on webhook_subscriptions to backstitch_subscriptions;

    grant select, delete on
        webhook_events, webhook_delivery_sagas, dead_letters, webhook_attempts, jobs
        to backstitch_retention;
end;
$$;

select grant_webhook_roles();
