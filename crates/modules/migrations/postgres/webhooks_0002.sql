-- The dead letters that nobody has sent after all, found without a look at those that somebody has. A letter comes with what was given
-- up, and goes once it is requeued, or removed.

create table waiting_dead_letters (
    saga_id          bigint           not null primary key,
    event_id         bigint           not null,
    subscription_id  bigint           not null,
    created_at       timestamptz      not null,
    attempt_count    integer          not null,
    final_error_code varchar(100),
    webhook_id       text collate "C" not null
);

create index idx_waiting_letter_subscription on waiting_dead_letters (subscription_id, saga_id);
create index idx_waiting_letter_event on waiting_dead_letters (event_id, saga_id);
create index idx_waiting_letter_code on waiting_dead_letters (final_error_code, saga_id);

-- Nobody gives anything up, and nobody requeues, before those there are have been counted.
lock table dead_letters, webhook_delivery_sagas in share row exclusive mode;

insert into waiting_dead_letters (
    saga_id, event_id, subscription_id, created_at, attempt_count, final_error_code, webhook_id
)
select saga_id, event_id, subscription_id, created_at, attempt_count, final_error_code, webhook_id
from dead_letters
where not exists (select from webhook_delivery_sagas where requeue_of = dead_letters.saga_id);

-- Whoever gives up, requeues or removes needs no right to it.
create function dead_letter_waits() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    insert into $schema.waiting_dead_letters (
        saga_id, event_id, subscription_id, created_at, attempt_count, final_error_code, webhook_id
    )
    values (
        new.saga_id, new.event_id, new.subscription_id, new.created_at, new.attempt_count, new.final_error_code,
        new.webhook_id
    );
    return null;
end;
$$;

create function dead_letter_waits_no_more() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    delete from $schema.waiting_dead_letters where saga_id = old.saga_id;
    return null;
end;
$$;

create function dead_letter_is_requeued() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    delete from $schema.waiting_dead_letters where saga_id = new.requeue_of;
    return null;
end;
$$;

create trigger dead_letters_wait
    after insert on dead_letters
    for each row
    execute function dead_letter_waits();

create trigger dead_letters_wait_no_more
    after delete on dead_letters
    for each row
    execute function dead_letter_waits_no_more();

create trigger webhook_delivery_sagas_requeue
    after insert on webhook_delivery_sagas
    for each row
    when (new.requeue_of is not null)
    execute function dead_letter_is_requeued();

-- What an operator calls once the roles are there gives the new right too.
alter function grant_webhook_roles() rename to grant_first_webhook_roles;

create function grant_webhook_roles() returns void
    language plpgsql
    set search_path = $schema, pg_temp
as $$
begin
    perform grant_first_webhook_roles();
    if exists (select from pg_roles where rolname = '$schema_dead_letter') then
        grant select on waiting_dead_letters to $schema_dead_letter;
    end if;
end;
$$;

select grant_webhook_roles();
