-- Reports of workers that the database rejected. Each is written once the database takes it; until then its job is not leased
-- again, so that its webhook is not sent again.
create table webhook_rejected_reports (
    job_id bigint not null primary key,
    token  bigint not null,
    -- The report as JSON.
    report text   not null
);

-- Jobs of sagas stand in the same table: the roles of webhooks change none of them.
create trigger jobs_refuse_webhook_roles
    before update or delete on jobs
    for each row
    when (old.delivery_id is null and current_user in ('$schema_worker', '$schema_retention'))
    execute function refuse('the roles of webhooks change only jobs of deliveries');

alter function grant_webhook_roles() rename to grant_sixth_webhook_roles;

create function grant_webhook_roles() returns void
    language plpgsql
    set search_path = $schema, pg_temp
as $$
begin
    perform grant_sixth_webhook_roles();
    if (select count(*) from pg_roles where rolname in ('$schema_orchestrator', '$schema_worker')) = 2 then
        -- Without the columns of sagas no job of a saga can be inserted.
        revoke insert on jobs from $schema_orchestrator;
        grant insert (id, delivery_id, lane, queue, until, created_at) on jobs to $schema_orchestrator;
        grant select, insert, delete on webhook_rejected_reports to $schema_worker;
    end if;
end;
$$;

select grant_webhook_roles();
