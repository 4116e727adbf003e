delete from job_results
where job_id = ?1
