-- Removes the pauses that ended or expired, and those of processes before this one.
delete from webhook_pauses
where node <> ?1 or paused_until <= ?2 or subscription_id in (select value from json_each(?3))
