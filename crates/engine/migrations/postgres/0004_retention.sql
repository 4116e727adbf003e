-- What goes with a saga is found by it. Only keys of starts and jobs that are over are in these, and a saga's number goes up
-- with time, so that a new entry stands beside the one before.

create index ledger_of_sagas on idempotency_ledger (saga_id) where saga_id is not null;
create index jobs_over on jobs (saga_id) where saga_id is not null and status in ('Completed', 'Failed');

-- What one node at a time does, and who does it until when.
create table turns (
    what   text collate "C" not null primary key,
    until  timestamptz      not null,
    holder text             not null
);
