-- Tells the id of the next subscription, and tells it nobody else.
select nextval('webhook_subscriptions_id_seq')
