-- Nodes say until when they have written the answers of workers that arrived at them. A worker's lease that ended before its answer
-- could be written has not expired: the database may have stalled meanwhile.

-- Nodes of earlier versions do not say.
alter table nodes add column answers_written_until timestamptz;

-- Until when leases have expired. A node that is dead writes nothing any more, so nothing waits for it.
create function answers_written_until() returns timestamptz
    language sql stable security definer
    set search_path = pg_catalog, pg_temp
as $$
    select least($schema.clock(), min(answers_written_until))
    from $schema.nodes
    where heartbeat_at + lease_ms * interval '1 ms' > $schema.clock()
$$;
