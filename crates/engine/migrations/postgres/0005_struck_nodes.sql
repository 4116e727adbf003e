-- Nodes that were struck off, and until when they were alive: what they left behind has waited for somebody since then, and no
-- longer.
create table struck_nodes (
    epoch          bigint      not null primary key,
    lease_ended_at timestamptz not null
);
