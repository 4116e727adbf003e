-- Of the chosen deliveries those that wait for a paused subscription: until when, and why. One that a worker has does not wait, nor does
-- one that is not due before the pause ends. The delivery whose `Retry-After` began the pause is due about when it ends.
select s.id, max(p.paused_until), p.reason
from json_each(?1) as chosen
    cross join webhook_delivery_sagas as s on s.id = chosen.value
    cross join webhook_pauses as p on p.subscription_id = s.subscription_id
where
    s.status in ('Pending', 'InProgress', 'PendingRetry')
    and p.paused_until > ?2
    and s.next_attempt_at <= p.paused_until + 1000000
    and not exists (select 1 from jobs as j where j.id = s.job_id and j.status = 'Leased')
group by s.id
