-- Keeps a rejected report. The first one of a job stays.
insert into webhook_rejected_reports (job_id, token, report)
values (?1, ?2, ?3)
on conflict do nothing
returning job_id
