-- Tells the id of the next subscription, and tells it nobody else.
update sqlite_sequence set seq = seq + 1 where name = 'webhook_subscriptions' returning seq
