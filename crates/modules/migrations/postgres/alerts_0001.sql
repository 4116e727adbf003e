-- Who has been told of which alert. An alert itself is a message in the outbox.

create table $schema.alert_notices (
    tried_at    timestamptz      not null,
    notified_at timestamptz,
    attempts    integer          not null check (attempts > 0),
    alert_key   text collate "C" not null,
    channel     text collate "C" not null,
    -- Of those that have the same channel, such as mail addresses; empty where there is only one.
    recipient   text collate "C" not null default '',
    last_error  text,
    primary key (alert_key, channel, recipient)
);

create trigger alert_notices_that_are_out_never_change
    before update on $schema.alert_notices
    for each row
    when (old.notified_at is not null)
    execute function $schema.refuse('the notice is out: when that was never changes');
