-- What these sagas leave behind, whose rows are gone.
with
events as (delete from backstitch.saga_events where saga_id = any ($1::uuid[]) returning 1),
attributes as (delete from backstitch.saga_attributes where saga_id = any ($1::uuid[])),
messages as (delete from backstitch.saga_inbox where saga_id = any ($1::uuid[])),
work as (
    delete from backstitch.jobs where saga_id = any ($1::uuid[]) and status in ('Completed', 'Failed') returning 1
),
keys as (delete from backstitch.idempotency_ledger where saga_id = any ($1::uuid[]) returning 1)
select
    (select count(*) from events) as events,
    (select count(*) from work) as jobs,
    (select count(*) from keys) as keys
