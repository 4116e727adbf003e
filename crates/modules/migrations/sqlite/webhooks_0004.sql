-- Guards of stored history that hold for every program: `INSERT OR REPLACE` fires no delete trigger, so a key that exists
-- is refused. A trigger `update of id` does not see an update of `rowid`, so such tables compare the ids.

create trigger webhook_events_refuse_replace before insert on webhook_events
when exists (select 1 from webhook_events where id = new.id)
    or exists (select 1 from webhook_events where uid = new.uid)
begin
    select raise(fail, 'the event exists: an event is never replaced');
end;

create trigger webhook_events_refuse_delete before delete on webhook_events
when exists (select 1 from webhook_delivery_sagas where event_id = old.id)
begin
    select raise(abort, 'an event can be deleted only after its deliveries');
end;

create trigger webhook_subscriptions_refuse_replace before insert on webhook_subscriptions
when exists (select 1 from webhook_subscriptions where id = new.id)
begin
    select raise(abort, 'the subscription exists: a subscription is never replaced');
end;

create trigger webhook_subscriptions_refuse_new_origin before update on webhook_subscriptions
when new.id <> old.id or new.created_at <> old.created_at
begin
    select raise(abort, 'the id and creation time of a subscription never change');
end;

create trigger webhook_subscriptions_refuse_delete before delete on webhook_subscriptions
begin
    select raise(abort, 'deliveries refer to the subscription: set deleted_at instead');
end;

create trigger webhook_delivery_sagas_refuse_replace before insert on webhook_delivery_sagas
when exists (select 1 from webhook_delivery_sagas where id = new.id)
    or case
        when new.requeue_of is not null then
            exists (select 1 from webhook_delivery_sagas where requeue_of = new.requeue_of)
        when new.replay_id is not null then
            exists (
                select 1
                from webhook_delivery_sagas
                where replay_id = new.replay_id
                    and event_id = new.event_id
                    and subscription_id = new.subscription_id
            )
        else
            exists (
                select 1
                from webhook_delivery_sagas
                where event_id = new.event_id
                    and subscription_id = new.subscription_id
                    and requeue_of is null
                    and replay_id is null
            )
    end
begin
    select raise(fail, 'the delivery exists: a delivery is never replaced');
end;

create trigger webhook_delivery_sagas_refuse_new_id before update on webhook_delivery_sagas
when new.id <> old.id
begin
    select raise(fail, 'what a delivery was made from never changes');
end;

create trigger dead_letters_refuse_replace before insert on dead_letters
when exists (select 1 from dead_letters where saga_id = new.saga_id)
begin
    select raise(abort, 'the dead letter exists: a dead letter is never replaced');
end;

create trigger dead_letters_refuse_delete before delete on dead_letters
when exists (select 1 from webhook_delivery_sagas where id = old.saga_id)
begin
    select raise(abort, 'a dead letter can be deleted only after its delivery');
end;

create trigger webhook_attempts_refuse_replace before insert on webhook_attempts
when exists (select 1 from webhook_attempts where saga_id = new.saga_id and job_id = new.job_id)
begin
    select raise(fail, 'the attempt exists: an attempt is never replaced');
end;

create trigger webhook_attempts_refuse_delete before delete on webhook_attempts
when exists (select 1 from webhook_delivery_sagas where id = old.saga_id)
begin
    select raise(abort, 'an attempt can be deleted only after its delivery');
end;

-- A delivery at its end gets no further job.
create trigger jobs_refuse_ended_delivery before insert on jobs
when new.delivery_id is not null
    and new.status in ('Pending', 'Leased')
    and exists (
        select 1
        from webhook_delivery_sagas
        where id = new.delivery_id and status in ('Completed', 'DeadLettered')
    )
begin
    select raise(fail, 'the delivery is at its end: it gets no further job');
end;
