-- Items that the database rejected: their batches pass them over until `retry_at`. A row whose time has passed only
-- remembers how often its item was rejected before.

create table parked_items (
    parked_at timestamptz not null,
    retry_at  timestamptz not null,
    attempts  integer     not null check (attempts > 0),
    -- The batch that was rejected because of it.
    area      text        not null,
    item      text        not null,
    reason    text        not null,
    primary key (area, item)
);
