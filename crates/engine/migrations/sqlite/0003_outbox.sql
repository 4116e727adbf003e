-- Keys that make a repeated request the same request, and messages to the world.

create table idempotency_ledger (
    scope   text    not null,
    key     text    not null,
    digest  blob    not null check (length(digest) = 32),
    state   text    not null default 'accepted'
        check (state = 'accepted' or state = 'succeeded' or state = 'failed'),
    saga_id blob,
    result  text,
    at      integer not null,
    primary key (scope, key)
) strict, without rowid;

create table outbox (
    id              integer primary key autoincrement,
    topic           text    not null,
    idempotency_key text    not null,
    ordering_key    text,
    payload         text    not null,
    status          text    not null default 'pending'
        check (
            status = 'pending' or status = 'sending' or status = 'failed' or status = 'sent' or status = 'aborted'
        ),
    attempts        integer not null default 0 check (attempts >= 0),
    lock            integer not null default 0 check (lock >= 0),
    locked_at       integer,
    due_at          integer not null,
    last_error      text,
    created_at      integer not null,
    unique (topic, idempotency_key)
) strict;

create index outbox_due on outbox (due_at) where status in ('pending', 'failed');
create index outbox_sending on outbox (locked_at) where status = 'sending';
create index outbox_unsent on outbox (created_at) where status in ('pending', 'sending', 'failed');
create index outbox_unsent_in_order on outbox (topic, ordering_key, id)
    where ordering_key is not null and status in ('pending', 'sending', 'failed');
create index outbox_alerts on outbox (id) where topic = 'backstitch.alerts';

create trigger outbox_settled_never_changes before update on outbox
when old.status in ('sent', 'aborted')
begin
    select raise(abort, 'the message is settled: it is never sent again');
end;
