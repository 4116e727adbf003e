-- Seed 003's table of order requests for every program: an INSERT publishes, and a message of the outbox is due unless
-- something else is said.

-- A message that is written without a time is due since it was written.
create trigger outbox_due_by_default after insert on outbox
when new.due_at is null and new.status = 'pending'
begin
    update outbox set due_at = new.created_at where id = new.id;
end;

-- One that failed and is due again is pending. The time of day as SQLite 3.40 can tell it.
drop view outbox_orders;
create view outbox_orders as
select
    id,
    strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1000000.0, 'unixepoch') as created_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', updated_at / 1000000.0, 'unixepoch') as updated_at,
    idempotency_key,
    payload as order_request_json,
    lower(hex(request_digest)) as request_digest,
    case
        when status = 'failed' and due_at <= (julianday('now') - 2440587.5) * 86400000000.0 then 'pending'
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

-- SQLite has no SHA-256, so the program that inserts gives the digest.
create trigger outbox_orders_insert instead of insert on outbox_orders
begin
    select raise(abort, 'idempotency_key must be a text of 1 to 512 bytes')
    where new.idempotency_key is null
        or typeof(new.idempotency_key) <> 'text'
        or length(cast(new.idempotency_key as blob)) not between 1 and 512;
    select raise(abort, 'order_request_json must be a JSON document of up to 262144 bytes')
    where new.order_request_json is null
        or not json_valid(new.order_request_json)
        or length(cast(new.order_request_json as blob)) > 262144;
    select raise(abort, 'request_digest must be a SHA-256 digest: 64 hexadecimal digits')
    where new.request_digest is null
        or length(new.request_digest) <> 64
        or new.request_digest glob '*[^0-9a-fA-F]*';
    select raise(abort, 'a new order request is pending: leave id, status, attempts, errors and locks to the outbox')
    where new.id is not null
        or coalesce(new.status, 'pending') <> 'pending'
        or coalesce(new.attempts, 0) <> 0
        or new.last_error_code is not null
        or new.last_error_msg is not null
        or new.locked_by is not null
        or new.locked_at is not null;
    select raise(abort, 'expires_at must be a time such as 2030-01-31T12:00:00Z')
    where new.expires_at is not null and (typeof(new.expires_at) <> 'text' or julianday(new.expires_at) is null);
    select raise(abort, 'the idempotency key was first used for another request: use a new key for a new request')
    from idempotency_ledger
    where scope = 'outbox/orders'
        and key = new.idempotency_key
        and lower(hex(digest)) <> lower(new.request_digest);

    insert into outbox (
        topic, idempotency_key, payload, request_digest, expires_at, due_at, created_at, updated_at
    )
    select
        'orders', new.idempotency_key, new.order_request_json, digest.bytes,
        cast(round((julianday(new.expires_at) - 2440587.5) * 86400000.0) as integer) * 1000, moment.at, moment.at,
        moment.at
    from (select cast((julianday('now') - 2440587.5) * 86400000000.0 as integer) as at) as moment,
        -- Byte by byte out of a table of all bytes.
        (
            select cast(
                group_concat(
                    substr(
                        cast(
                            x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f'
                            || x'202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f'
                            || x'404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f'
                            || x'606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f'
                            || x'808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f'
                            || x'a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebf'
                            || x'c0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedf'
                            || x'e0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff'
                            as blob
                        ),
                        16 * instr('0123456789abcdef', substr(lower(new.request_digest), 2 * value + 1, 1))
                        + instr('0123456789abcdef', substr(lower(new.request_digest), 2 * value + 2, 1)) - 16,
                        1
                    ),
                    ''
                ) as blob
            ) as bytes
            from json_each('[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31]')
        ) as digest
    where not exists (
        select 1 from idempotency_ledger where scope = 'outbox/orders' and key = new.idempotency_key
    );
    insert into idempotency_ledger (scope, key, digest, at)
    select 'outbox/orders', idempotency_key, request_digest, created_at
    from outbox
    where topic = 'orders'
        and idempotency_key = new.idempotency_key
        and retry_of is null
        and not exists (
            select 1 from idempotency_ledger where scope = 'outbox/orders' and key = new.idempotency_key
        );
end;

create trigger outbox_orders_refuse_update instead of update on outbox_orders
begin
    select raise(abort, 'an order request is changed by the outbox alone: insert a new one');
end;

create trigger outbox_orders_refuse_delete instead of delete on outbox_orders
begin
    select raise(abort, 'an order request is removed by retention alone: see [retention]');
end;

-- Seed 003's ledger of order requests.
create view if not exists idempo_ledger as
select
    key as idempotency_key,
    lower(hex(digest)) as request_digest,
    state as status,
    result,
    strftime('%Y-%m-%dT%H:%M:%fZ', at / 1000000.0, 'unixepoch') as created_at
from idempotency_ledger
where scope = 'outbox/orders';
