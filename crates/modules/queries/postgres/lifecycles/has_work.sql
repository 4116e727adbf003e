-- Whether anything waits in these queues, or was leased and may have been lost.
select 1
from jobs
where queue in (select jsonb_array_elements_text($1::text::jsonb)) and (status = 'Pending' or status = 'Leased')
limit 1
