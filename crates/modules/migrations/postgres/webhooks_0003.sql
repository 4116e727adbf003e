-- What outside workers have counts for as long as they have it, whatever becomes of the node that gave it to them.

-- Which node gave it to an outside worker; nothing where it makes the attempt itself, which then ends with it.
alter table jobs add column handed_out_by text collate "C";
-- The last change of its subscription that it was handed out after: what the worker calls is the subscription as of then.
alter table jobs add column handed_out_as timestamptz;

create index jobs_handed_out on jobs (lane, handed_out_by)
    where status = 'Leased' and handed_out_by is not null;

-- What an operator calls once the roles are there gives the new right too.
alter function grant_webhook_roles() rename to grant_second_webhook_roles;

create function grant_webhook_roles() returns void
    language plpgsql
    set search_path = $schema, pg_temp
as $$
begin
    perform grant_second_webhook_roles();
    if exists (select from pg_roles where rolname = '$schema_worker') then
        grant update (handed_out_by, handed_out_as) on jobs to $schema_worker;
    end if;
end;
$$;

select grant_webhook_roles();
