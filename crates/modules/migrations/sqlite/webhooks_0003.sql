-- What outside workers have counts for as long as they have it, whatever becomes of the process that gave it to them.

-- Which process gave it to an outside worker; nothing where it makes the attempt itself, which then ends with it.
alter table jobs add column handed_out_by text;
-- The last change of its subscription that it was handed out after: what the worker calls is the subscription as of then.
alter table jobs add column handed_out_as integer;

create index jobs_handed_out on jobs (lane, handed_out_by)
    where status = 'Leased' and handed_out_by is not null;
