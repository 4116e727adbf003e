-- The migration before left out rows that a node held to end the wait for a worker. Nothing has happened to them since, so
-- their machines have no `queue_timeout`: they wait without end, like the others.
update lifecycles
set holder = null, due_at = null, token = token + 1
where
    not ended and not abandoned and not leased and holder is not null
    and updated_at <= (select applied_at from backstitch_product_migrations where product = 'lifecycles' and version = 5)
    and exists (select 1 from jobs where jobs.saga_id = lifecycles.id and jobs.status = 'Pending');
