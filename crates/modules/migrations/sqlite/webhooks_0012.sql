-- Reports of workers that the database rejected. Each is written once the database takes it; until then its job is not leased
-- again, so that its webhook is not sent again.
create table webhook_rejected_reports (
    job_id integer not null primary key,
    token  integer not null,
    -- The report as JSON.
    report text    not null
) strict;
