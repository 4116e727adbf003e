-- Which subscriptions the process pauses, until when and why. For people only: it goes by what it has in memory. A row counts
-- while its time is not over; what a crash leaves the next process removes.
create table webhook_pauses (
    subscription_id integer not null,
    paused_until    integer not null,
    -- The process.
    node            text    not null,
    reason          text    not null,
    primary key (subscription_id, node)
) strict, without rowid;

-- A subscription that was changed is tried anew, and nothing is sent to one that was deleted.
create trigger webhook_subscriptions_end_pauses
after update on webhook_subscriptions
begin
    delete from webhook_pauses where subscription_id = new.id;
end;
