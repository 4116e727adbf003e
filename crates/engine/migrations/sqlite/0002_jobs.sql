-- Work that outlives the process that asked for it.

create table jobs (
    id         integer primary key autoincrement,
    saga_id    blob    not null,
    queue      text    not null,
    subject    text    not null,
    payload    text    not null,
    status     text    not null default 'pending'
        check (status = 'pending' or status = 'leased' or status = 'completed' or status = 'failed'),
    token      integer not null default 0 check (token >= 0),
    until      integer not null,
    attempts   integer not null default 0 check (attempts >= 0),
    expiries   integer not null default 0 check (expiries >= 0),
    last_error text,
    -- What to tell whoever looks after this installation if the job is given up.
    alert      text,
    created_at integer not null
) strict;

-- A saga asks for the same thing once at a time.
create unique index jobs_active on jobs (saga_id, subject) where status in ('pending', 'leased');
create index jobs_due on jobs (queue, until) where status = 'pending';
create index jobs_leased on jobs (queue, until) where status = 'leased';

create trigger jobs_finished_never_change before update on jobs
when old.status in ('completed', 'failed')
begin
    select raise(abort, 'the job is finished: it is never used again');
end;
