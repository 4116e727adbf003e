-- The part that leases jobs says who holds a lease. What an operator calls once the roles are there gives this right too.
alter function grant_webhook_roles() rename to grant_second_webhook_roles;

create function grant_webhook_roles() returns void
    language plpgsql
    set search_path = $schema, pg_temp
as $$
begin
    perform grant_second_webhook_roles();
    if exists (select from pg_roles where rolname = '$schema_worker') then
        grant update (lease_holder, lease_version) on jobs to $schema_worker;
    end if;
end;
$$;

select grant_webhook_roles();
