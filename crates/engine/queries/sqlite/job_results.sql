-- Results of items' jobs that their product has not consumed.
select result.job_id, result.error_code, result.retry_after_ms /*columns*/
from job_results as result
    /*joins*/
where result.job_id not in (select cast(item as integer) from parked_items where area = ?2 and retry_at > ?3)
order by result.job_id
limit ?1
/*then*/
