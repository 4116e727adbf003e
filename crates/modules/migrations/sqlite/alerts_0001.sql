-- Who has been told of which alert. An alert itself is a message in the outbox.

create table alert_notices (
    alert_key   text    not null,
    channel     text    not null,
    -- Of those that have the same channel, such as mail addresses; empty where there is only one.
    recipient   text    not null default '',
    attempts    integer not null check (attempts > 0),
    tried_at    integer not null,
    notified_at integer,
    last_error  text,
    primary key (alert_key, channel, recipient)
) strict, without rowid;

create trigger alert_notices_that_are_out_never_change before update on alert_notices
when old.notified_at is not null
begin
    select raise(abort, 'the notice is out: when that was never changes');
end;
