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

create index ledger_of_messages on idempotency_ledger (at) where saga_id is null;

create table outbox (
    id              integer primary key autoincrement,
    topic           text    not null,
    idempotency_key text    not null,
    ordering_key    text,
    payload         text    not null,
    request_digest  blob check (length(request_digest) = 32),
    status          text    not null default 'pending'
        check (
            status = 'pending' or status = 'sending' or status = 'failed' or status = 'succeeded'
            or status = 'aborted'
        ),
    attempts        integer not null default 0 check (attempts >= 0),
    lock            integer not null default 0 check (lock >= 0),
    locked_by       text,
    locked_at       integer,
    leased_until    integer,
    in_doubt        integer not null default 0 check (in_doubt in (0, 1)),
    -- Whoever wrote it has counted it. Everything else is counted by whoever takes it first.
    counted         integer not null default 0 check (counted in (0, 1)),
    -- Nothing where it is on its way or settled, or waits behind another one of its ordering key.
    due_at          integer,
    expires_at      integer,
    retry_of        integer,
    last_error_code text,
    last_error_msg  text,
    created_at      integer not null,
    updated_at      integer not null
) strict;

create unique index uq_outbox_idempo on outbox (topic, idempotency_key) where retry_of is null;
create unique index uq_outbox_retry on outbox (retry_of) where retry_of is not null;
create index idx_outbox_status on outbox (status, id);
create index idx_outbox_locked_at on outbox (locked_at) where locked_at is not null;
create index outbox_due on outbox (topic, due_at, id) where due_at is not null;
create index outbox_expiring on outbox (expires_at)
    where expires_at is not null and status in ('pending', 'failed');
create index outbox_unsent_in_order on outbox (topic, ordering_key, id)
    where ordering_key is not null and status in ('pending', 'sending', 'failed');
create index outbox_topic on outbox (topic, id);
create index outbox_retries on outbox (topic, idempotency_key) where retry_of is not null;

create trigger outbox_settled_never_changes before update on outbox
when old.status in ('succeeded', 'aborted')
begin
    select raise(abort, 'the message is settled: it is never sent again');
end;

-- Seed 003's table: the order requests. One that failed and is due again is pending.
create view outbox_orders as
select
    id,
    strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1000000.0, 'unixepoch') as created_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', updated_at / 1000000.0, 'unixepoch') as updated_at,
    idempotency_key,
    payload as order_request_json,
    lower(hex(request_digest)) as request_digest,
    case
        when status = 'failed' and due_at <= unixepoch('subsec') * 1000000 then 'pending'
        else status
    end as status,
    attempts,
    last_error_code,
    last_error_msg,
    locked_by,
    strftime('%Y-%m-%dT%H:%M:%fZ', locked_at / 1000000.0, 'unixepoch') as locked_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', expires_at / 1000000.0, 'unixepoch') as expires_at
from outbox
where topic = 'orders';
