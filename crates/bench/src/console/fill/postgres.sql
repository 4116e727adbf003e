-- Whatever there is so far are the models.

create temp table model_sagas on commit drop as select * from sagas;
create unique index model_of_saga on model_sagas (id);
create temp table model_events on commit drop as select * from saga_events;
create index model_of_event on model_events (saga_id, seq);
create temp table model_lives on commit drop as
select row_number() over (order by id) - 1 as place, (select count(*) from lifecycles where machine = 'letter') as places, *
from lifecycles where machine = 'letter';
create unique index model_of_life on model_lives (place);
create temp table model_alert on commit drop as select * from outbox where topic = 'backstitch.alerts' limit 1;
create temp table hooks on commit drop as
select row_number() over (order by id) - 1 as place, (select count(*) from webhook_subscriptions) as places, id
from webhook_subscriptions;
create unique index place_of_hook on hooks (place);

create temp table copies (i bigint primary key, id uuid, created_at timestamptz, slot bigint) on commit drop;
insert into copies
select
    i, (lpad(to_hex((now - (sagas - i) * step) / 1000), 12, '0') || '70008000' || lpad(to_hex(i), 12, '0'))::uuid,
    timestamptz 'epoch' + (now - (sagas - i) * step) * interval '1 microsecond',
    -- Neighbours are of different kinds.
    i * 617 % 1000
from plan, generate_series(1, sagas) as i;
analyze copies;
analyze slots;
analyze model_sagas;
analyze model_events;

-- Active sagas are due in the year 2200, so that no node adopts them.
insert into sagas (
    id, definition, version, status, paused, wake_at, inbox_seq, failed_step, correlation_id, created_at, updated_at
)
select
    c.id, m.definition, m.version, case when s.only_begun then 'pending' else m.status end, m.paused,
    case when m.status in ('pending', 'running', 'compensating') and not m.paused then timestamptz '2200-01-01' end,
    0, m.failed_step, case when c.i % 2 = 0 then 'customer-' || (c.i % 50000) end, c.created_at,
    c.created_at + (m.updated_at - m.created_at)
from copies c join slots s on s.slot = c.slot join model_sagas m on m.id = s.model
order by c.i;

insert into saga_events (saga_id, seq, at, type, step, attempt, data)
select c.id, e.seq, c.created_at + (e.at - m.created_at), e.type, e.step, e.attempt, e.data
from copies c join slots s on s.slot = c.slot join model_sagas m on m.id = s.model
    join model_events e on e.saga_id = m.id
where not s.only_begun or e.seq = 1
order by c.i, e.seq;

insert into saga_attributes (name, value, saga_id)
select 'tenant', 'tenant-' || (i / 10 % 100), id from copies where i % 10 = 0 order by 2, 3;
insert into saga_attributes (name, value, saga_id)
select 'order_id', 'order-' || i, id from copies where i % 10 = 0 order by 2, 3;

-- Of everything else there is one for each of the newest tenth.
create temp table newest on commit drop as
select * from copies where i > (select sagas - greatest(sagas / 10, least(sagas, 300)) from plan);

insert into webhook_events (uid, type, webhook_id, digest, created_at, payload)
select
    'event-' || i, case i % 3 when 0 then 'order.created' when 1 then 'order.paid' else 'order.sent' end,
    'msg_' || i, decode(repeat('00', 32), 'hex'), created_at, '{"order":' || i || ',"amount":"19.90"}'
from newest order by i;
insert into webhook_delivery_sagas (event_id, subscription_id, next_attempt_at, created_at, updated_at, webhook_id)
select e.id, h.id, timestamptz '2200-01-01', e.created_at, e.created_at, e.webhook_id
from webhook_events e join hooks h on h.place = e.id % h.places order by e.id;
update webhook_delivery_sagas set status = 'InProgress', job_id = id, next_attempt_at = created_at where id % 100 <> 0;
update webhook_delivery_sagas
set status = 'PendingRetry', attempt_count = 1, final_error_code = 'http_503', next_attempt_at = timestamptz '2200-01-01'
where id % 100 = 1;
update webhook_delivery_sagas set status = 'DeadLettered', attempt_count = 1, final_error_code = 'http_500'
where id % 100 in (2, 3);
update webhook_delivery_sagas set status = 'Completed', attempt_count = 1 where status = 'InProgress';
insert into webhook_attempts (
    saga_id, job_id, number, status, response_code, body, duration_ms, error_code, error, started_at, finished_at
)
select
    id, job_id, 1, case when status = 'Completed' then 'Completed' else 'Failed' end,
    case when status = 'Completed' then 200 else 500 end, '{"ok":true}', 12, final_error_code,
    case when status <> 'Completed' then 'the endpoint said so' end, created_at, created_at + interval '12 ms'
from webhook_delivery_sagas where job_id is not null;

insert into idempotency_ledger (scope, key, digest, state, at)
select 'outbox/' || case i % 3 when 0 then 'mail' when 1 then 'payments' else 'search' end, 'message-' || i,
    decode(repeat('00', 32), 'hex'), 'accepted', created_at
from newest order by 1, 2;
insert into outbox (
    topic, idempotency_key, payload, status, attempts, counted, due_at, last_error_code, last_error_msg, created_at,
    updated_at
)
select
    case i % 3 when 0 then 'mail' when 1 then 'payments' else 'search' end, 'message-' || i, '{"order":' || i || '}',
    case i % 100 when 0 then 'aborted' when 1 then 'pending' when 2 then 'failed' else 'succeeded' end,
    case i % 100 when 1 then 0 else 1 end, true, case when i % 100 in (1, 2) then timestamptz '2200-01-01' end,
    case when i % 100 in (0, 2) then 'http_500' end, case when i % 100 in (0, 2) then 'the other side said so' end,
    created_at, created_at
from newest order by i;

insert into outbox (topic, idempotency_key, payload, status, attempts, counted, created_at, updated_at)
select a.topic, 'copy-' || n.i, a.payload, 'succeeded', 1, true, n.created_at, n.created_at
from newest n, model_alert a where n.i % 10 = 0 order by n.i;
insert into alert_notices (alert_key, channel, attempts, tried_at, notified_at)
select 'copy-' || i, 'log', 1, created_at, created_at from newest where i % 10 = 0 order by 1;
insert into alert_acknowledgements (alert_key, acknowledged_by, note, acknowledged_at)
select 'copy-' || i, 'ada', 'refunded by hand', created_at from newest where i % 30 = 0 order by 1;

-- An id of its own, beside that of the saga.
insert into lifecycles (
    id, machine, key, version, state, ended, seq, entry, attempt, failures, interruptions, token, correlation_id,
    error_kind, last_error, input, created_at, updated_at, entered_at
)
select
    overlay(n.id::text placing '7001' from 15 for 4)::uuid, m.machine, 'letter-' || n.i, m.version, m.state, m.ended, m.seq,
    m.entry, m.attempt, m.failures, m.interruptions, m.token, 'customer-' || (n.i % 50000), m.error_kind, m.last_error,
    m.input, n.created_at, n.created_at + (m.updated_at - m.created_at), n.created_at + (m.entered_at - m.created_at)
from newest n join model_lives m on m.place = n.i % m.places order by n.i;
insert into saga_events (saga_id, seq, at, type, step, attempt, data)
select
    overlay(n.id::text placing '7001' from 15 for 4)::uuid, e.seq, n.created_at + (e.at - m.created_at), e.type, e.step,
    e.attempt, e.data
from newest n join model_lives m on m.place = n.i % m.places join model_events e on e.saga_id = m.id
order by n.i, e.seq;
insert into lifecycle_dead_letters (at, source, body, reason, mark)
select created_at, 'nats:lifecycles', '{"site'::bytea, 'it is no JSON', 'mark-' || i from newest where i % 10 = 0;

insert into audit (at, key_id, key_name, role, peer, method, path, subject)
select
    created_at, 1, 'bench', 'operator', '127.0.0.1', 'POST', '/v1/sagas/' || id || '/cancel', id::text
from newest order by i;
insert into audit_answers (audit_id, at, status)
select id, at, 202 from audit where true on conflict do nothing;
