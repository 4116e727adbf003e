-- Work that outlives the process that asked for it.

create table jobs (
    id          integer primary key autoincrement,
    -- Who asked for it: a saga, or a delivery of a product, whose jobs stand in a lane of their own.
    saga_id     blob,
    delivery_id integer,
    lane        integer,
    queue       text    not null,
    subject     text    not null default '',
    payload     text    not null default 'null',
    status      text    not null default 'Pending'
        check (status = 'Pending' or status = 'Leased' or status = 'Completed' or status = 'Failed'),
    token       integer not null default 0 check (token >= 0),
    until       integer not null,
    attempts    integer not null default 0 check (attempts >= 0),
    expiries    integer not null default 0 check (expiries >= 0),
    last_error  text,
    -- What to tell whoever looks after this installation if the job is given up.
    alert       text,
    created_at  integer not null,
    -- The node whose outside workers have leased it, and the version of the partition that they work by; nothing where the node
    -- works on it itself.
    lease_holder  text,
    lease_version integer,
    check ((saga_id is null) = (delivery_id is not null)),
    check ((lane is null) = (delivery_id is null))
) strict;

-- A saga asks for the same thing once at a time, a delivery for anything.
create unique index jobs_active on jobs (saga_id, subject)
    where saga_id is not null and status in ('Pending', 'Leased');
create unique index jobs_active_delivery on jobs (delivery_id)
    where delivery_id is not null and status in ('Pending', 'Leased');
-- What has a lane is found by it, and by nothing else: a long lane hides no other.
create index jobs_due on jobs (queue, until) where status = 'Pending' and lane is null;
create index jobs_due_in_lane on jobs (lane) where status = 'Pending' and lane is not null;
create index jobs_leased on jobs (queue, until) where status = 'Leased';
create index jobs_held on jobs (lane, lease_holder) where status = 'Leased' and lease_holder is not null;

create trigger jobs_finished_never_change before update on jobs
when old.status in ('Completed', 'Failed')
begin
    select raise(abort, 'the job is finished: it is never used again');
end;

-- What came of the jobs of deliveries, until whoever decides about them has seen it.
create table job_results (
    job_id         integer primary key,
    delivery_id    integer not null,
    at             integer not null,
    retry_after_ms integer check (retry_after_ms >= 0),
    -- Nothing where it arrived.
    error_code     text
) strict;
