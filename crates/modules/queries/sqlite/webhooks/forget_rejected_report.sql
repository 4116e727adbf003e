delete from webhook_rejected_reports
where job_id = ?1
