-- Of the chosen deliveries those of a paused subscription: until when, why, and the newest job. One that is not due before the pause
-- ends does not wait for it. The delivery whose `Retry-After` began the pause is due about when it ends.
select s.id, max(p.paused_until), p.reason, s.job_id
from json_each(?1) as chosen
    cross join webhook_delivery_sagas as s on s.id = chosen.value
    cross join webhook_pauses as p on p.subscription_id = s.subscription_id
where
    s.status in ('Pending', 'InProgress', 'PendingRetry')
    and p.paused_until > ?2
    and s.next_attempt_at <= p.paused_until + 1000000
group by s.id
