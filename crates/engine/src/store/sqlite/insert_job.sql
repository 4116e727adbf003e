-- The job that is already under way stands for a repeated one.
insert into jobs (saga_id, queue, subject, payload, until, created_at, alert)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
on conflict (saga_id, subject) where saga_id is not null and status in ('Pending', 'Leased') do nothing
