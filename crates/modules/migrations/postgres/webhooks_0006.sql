-- Batches pass over what is parked.
alter function grant_webhook_roles() rename to grant_fourth_webhook_roles;

create function grant_webhook_roles() returns void
    language plpgsql
    set search_path = $schema, pg_temp
as $$
begin
    perform grant_fourth_webhook_roles();
    if (select count(*) from pg_roles where rolname in ('$schema_orchestrator', '$schema_worker')) = 2 then
        grant select on parked_items to $schema_orchestrator, $schema_worker;
    end if;
end;
$$;

select grant_webhook_roles();
