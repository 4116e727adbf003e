-- Guards of stored history that hold for every program.

create trigger webhook_events_refuse_truncate
    before truncate on webhook_events
    for each statement
    execute function refuse('an event can be deleted only after its deliveries');

create function refuse_before_deliveries() returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (select from $schema.webhook_delivery_sagas where event_id = old.id) then
        raise exception 'an event can be deleted only after its deliveries'
            using errcode = 'restrict_violation', table = tg_table_name;
    end if;
    return old;
end;
$$;

create trigger webhook_events_refuse_delete
    before delete on webhook_events
    for each row
    execute function refuse_before_deliveries();

create trigger webhook_subscriptions_refuse_new_origin
    before update of id, created_at on webhook_subscriptions
    for each row
    execute function refuse('the id and creation time of a subscription never change');

create trigger webhook_subscriptions_refuse_delete
    before delete or truncate on webhook_subscriptions
    for each statement
    execute function refuse('deliveries refer to the subscription: set deleted_at instead');

create trigger webhook_delivery_sagas_refuse_truncate
    before truncate on webhook_delivery_sagas
    for each statement
    execute function refuse('deliveries are never truncated: delete those that ended, or let retention do it');

create function refuse_before_delivery() returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (select from $schema.webhook_delivery_sagas where id = old.saga_id) then
        raise exception '%', tg_argv[0] using errcode = 'restrict_violation', table = tg_table_name;
    end if;
    return old;
end;
$$;

create trigger dead_letters_refuse_delete
    before delete on dead_letters
    for each row
    execute function refuse_before_delivery('a dead letter can be deleted only after its delivery');

create trigger dead_letters_refuse_truncate
    before truncate on dead_letters
    for each statement
    execute function refuse('a dead letter can be deleted only after its delivery');

create trigger webhook_attempts_refuse_delete
    before delete on webhook_attempts
    for each row
    execute function refuse_before_delivery('an attempt can be deleted only after its delivery');

create trigger webhook_attempts_refuse_truncate
    before truncate on webhook_attempts
    for each statement
    execute function refuse('an attempt can be deleted only after its delivery');

-- A delivery at its end gets no further job.
create function refuse_job_of_ended_delivery() returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (
        select
        from $schema.webhook_delivery_sagas
        where id = new.delivery_id and status in ('Completed', 'DeadLettered')
    ) then
        raise exception 'the delivery is at its end: it gets no further job'
            using errcode = 'restrict_violation', table = tg_table_name;
    end if;
    return new;
end;
$$;

create trigger jobs_refuse_ended_delivery
    before insert on jobs
    for each row
    when (new.delivery_id is not null and new.status in ('Pending', 'Leased'))
    execute function refuse_job_of_ended_delivery();

-- Only the dead-letter module makes a delivery from a dead letter, or from an event of a replay.
alter function grant_webhook_roles() rename to grant_third_webhook_roles;

create function grant_webhook_roles() returns void
    language plpgsql
    set search_path = $schema, pg_temp
as $$
begin
    perform grant_third_webhook_roles();
    if (select count(*) from pg_roles where rolname in ('$schema_ingest', '$schema_orchestrator')) = 2 then
        revoke insert on webhook_delivery_sagas from $schema_ingest, $schema_orchestrator;
        grant insert (event_id, subscription_id, next_attempt_at, created_at, updated_at, webhook_id)
            on webhook_delivery_sagas to $schema_ingest, $schema_orchestrator;
    end if;
end;
$$;

select grant_webhook_roles();
