-- Work that outlives the process that asked for it.

create table jobs (
    id         bigint generated always as identity primary key,
    token      bigint           not null default 0,
    until      timestamptz      not null,
    created_at timestamptz      not null,
    saga_id    uuid             not null,
    attempts   integer          not null default 0,
    expiries   integer          not null default 0,
    status     text collate "C" not null default 'pending'
        check (status in ('pending', 'leased', 'completed', 'failed')),
    queue      text collate "C" not null,
    subject    text collate "C" not null,
    payload    text             not null,
    last_error text,
    -- What to tell whoever looks after this installation if the job is given up.
    alert      text
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- A saga asks for the same thing once at a time.
create unique index jobs_active on jobs (saga_id, subject) where status in ('pending', 'leased');
create index jobs_due on jobs (queue, until, id) where status = 'pending';
create index jobs_leased on jobs (queue, until) where status = 'leased';

create trigger jobs_finished_never_change
    before update on jobs
    for each row
    when (old.status in ('completed', 'failed'))
    execute function refuse('the job is finished: it is never used again');
