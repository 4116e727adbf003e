-- Batches pass over what is parked.
alter function grant_webhook_roles() rename to grant_fourth_webhook_roles;

create function grant_webhook_roles() returns void
    language plpgsql
    set search_path = backstitch, pg_temp
as $$
begin
    perform grant_fourth_webhook_roles();
    if (select count(*) from pg_roles where rolname in ('backstitch_orchestrator', 'backstitch_worker')) = 2 then
        grant select on parked_items to backstitch_orchestrator, backstitch_worker;
    end if;
end;
$$;

select grant_webhook_roles();
