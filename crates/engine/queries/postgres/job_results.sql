-- Results of items' jobs that their product has not consumed.
select result.job_id, result.error_code, result.retry_after_ms /*columns*/
from job_results as result
    /*joins*/
where result.job_id <> all (array(select item::bigint from parked_items where area = $2 and retry_at > clock()))
order by result.job_id
limit $1
/*then*/
