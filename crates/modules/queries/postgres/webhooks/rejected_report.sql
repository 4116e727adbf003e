select report
from webhook_rejected_reports
where job_id = $1 and token = $2
