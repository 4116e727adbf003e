-- Which node pauses which subscription, until when and why. For people only: each node goes by what it has in memory. A row
-- counts while its time is not over and its node sends; what a crash leaves expires by itself.
create table webhook_pauses (
    subscription_id bigint           not null,
    paused_until    timestamptz      not null,
    -- The row of the node in webhook_senders.
    node            text collate "C" not null,
    reason          text             not null,
    primary key (subscription_id, node)
);

-- All nodes try a subscription that was changed anew, and send nothing to one that was deleted. Whoever changes it needs no
-- right to the pauses.
create function end_pauses() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    delete from $schema.webhook_pauses where subscription_id = new.id;
    return null;
end;
$$;

create trigger webhook_subscriptions_end_pauses
    after update on webhook_subscriptions
    for each row
    execute function end_pauses();

alter function grant_webhook_roles() rename to grant_fifth_webhook_roles;

create function grant_webhook_roles() returns void
    language plpgsql
    set search_path = $schema, pg_temp
as $$
begin
    perform grant_fifth_webhook_roles();
    if exists (select from pg_roles where rolname = '$schema_worker') then
        grant select, insert, delete, update (paused_until, reason) on webhook_pauses to $schema_worker;
    end if;
end;
$$;

select grant_webhook_roles();
