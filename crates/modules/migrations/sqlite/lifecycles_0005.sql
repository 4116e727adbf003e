-- The time of a worker begins when it leases an action. Before that, only the machine's `queue_timeout` ends the wait.
alter table lifecycles add column leased integer not null default 0 check (leased in (0, 1));

update lifecycles
set leased = 1
where
    not ended and not abandoned
    and exists (select 1 from jobs where jobs.saga_id = lifecycles.id and jobs.status = 'Leased');

update lifecycles
set due_at = null
where
    not ended and not abandoned and holder is null
    and exists (select 1 from jobs where jobs.saga_id = lifecycles.id and jobs.status = 'Pending');
