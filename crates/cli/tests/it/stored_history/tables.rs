//! Every table of both stores: its parts of stored history, with example rows.

/// A table, and what guards it.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) content: Content,
}

pub(crate) enum Content {
    /// Rows that must survive every statement.
    History(&'static [Row]),
    /// No history: why any program may change it.
    Free(&'static str),
}

/// One row of a table, in one of its states.
pub(crate) struct Row {
    /// Finds the row. Columns that it names never change.
    pub(crate) find: &'static str,
    /// Columns that may change in this state. Every other column is frozen, one that is added later too.
    pub(crate) free: &'static [&'static str],
    /// Whether retention, or the consumer of the row, may delete it as it is.
    pub(crate) deletable: bool,
    /// Whether `SQLite` lets other programs change nothing of it.
    pub(crate) shut_on_sqlite: bool,
}

const fn history(name: &'static str, rows: &'static [Row]) -> Table {
    Table { name, content: Content::History(rows) }
}

const fn free(name: &'static str, why: &'static str) -> Table {
    Table { name, content: Content::Free(why) }
}

const fn frozen(find: &'static str) -> Row {
    active(find, &[])
}

/// Frozen, until retention or the consumer of the row deletes it.
const fn deletable(find: &'static str) -> Row {
    Row { deletable: true, ..frozen(find) }
}

const fn active(find: &'static str, free: &'static [&'static str]) -> Row {
    Row { find, free, deletable: false, shut_on_sqlite: false }
}

const ACTIVE_SAGA: &[&str] =
    &["status", "paused", "owner", "wake_at", "inbox_seq", "failed_step", "updated_at"];
const ACTIVE_JOB: &[&str] =
    &["status", "token", "until", "attempts", "expiries", "last_error", "lease_holder", "lease_version"];
const UNSENT: &[&str] = &[
    "status",
    "attempts",
    "lock",
    "locked_by",
    "locked_at",
    "leased_until",
    "in_doubt",
    "counted",
    "due_at",
    "expires_at",
    "last_error_code",
    "last_error_msg",
    "updated_at",
];
const LIVE_SUBSCRIPTION: &[&str] = &[
    "url",
    "event_types",
    "headers",
    "max_retry_limit",
    "base_delay_ms",
    "max_delay_ms",
    "timeout_ms",
    "max_concurrency",
    "rate_limit",
    "secret",
    "previous_secret",
    "previous_secret_until",
    "disabled_at",
    "disabled_reason",
    "deleted_at",
    "updated_at",
];
const LIVE_DELIVERY: &[&str] =
    &["status", "attempt_count", "next_attempt_at", "final_error_code", "job_id", "updated_at"];
const ACTIVE_LIFECYCLE: &[&str] = &[
    "state",
    "ended",
    "seq",
    "entry",
    "attempt",
    "failures",
    "interruptions",
    "token",
    "holder",
    "correlation_id",
    "error_kind",
    "last_error",
    "input",
    "updated_at",
    "entered_at",
    "due_at",
    "stuck_at",
    "abandoned",
    "leased",
];

/// Which version is active and which one is staged.
const DOCUMENT: &[&str] = &["active", "staged", "changed_at"];

const MIGRATIONS: &str = "the migration runner reads it, and nothing refers to it";
const EMPTY: &str = "its constraints refuse every row";
const DERIVED: &str = "triggers derive it from another table";

/// Every table of SQLite and PostgreSQL. A table that is missing here fails the test.
pub(crate) const TABLES: &[Table] = &[
    history(
        "document_versions",
        &[
            frozen("kind = 'saga' and name = 'd' and version = 1"),
            frozen("kind = 'saga' and name = 'd' and version = 2"),
            frozen("kind = 'lifecycle' and name = 'm' and version = 1"),
            frozen("kind = 'lifecycle' and name = 'm' and version = 2"),
        ],
    ),
    history(
        "documents",
        &[
            active("kind = 'saga' and name = 'd'", DOCUMENT),
            active("kind = 'saga' and name = 'e'", DOCUMENT),
            active("kind = 'lifecycle' and name = 'm'", DOCUMENT),
        ],
    ),
    free("nodes", "it lists the processes that are alive"),
    free("parked_items", "it lists what is passed over for now"),
    free("turns", "it holds leases of maintenance work"),
    free("refusals", EMPTY),
    history(
        "sagas",
        &[
            active("id = {id:1}", ACTIVE_SAGA),
            deletable("id = {id:2}"),
            // Compensation may be taken up again.
            Row { deletable: true, ..active("id = {id:3}", &["status"]) },
        ],
    ),
    history(
        "saga_events",
        &[
            frozen("saga_id = {id:1} and seq = 1"),
            frozen("saga_id = {id:2} and seq = 1"),
            frozen("saga_id = {id:2} and seq = 2"),
            frozen("saga_id = {id:4} and seq = 1"),
        ],
    ),
    history("saga_attributes", &[frozen("saga_id = {id:1}"), frozen("saga_id = {id:2}")]),
    history(
        "saga_inbox",
        &[deletable("saga_id = {id:1} and seq = 1"), deletable("saga_id = {id:1} and seq = 2")],
    ),
    history(
        "jobs",
        &[
            active("subject = 'waiting'", ACTIVE_JOB),
            active("subject = 'leased'", ACTIVE_JOB),
            active("delivery_id = 1", ACTIVE_JOB),
            deletable("subject = 'completed'"),
            deletable("subject = 'failed'"),
        ],
    ),
    history("job_results", &[deletable("job_id = 901"), deletable("job_id = 902")]),
    history(
        "idempotency_ledger",
        &[
            active("key = 'start'", &["state", "result"]),
            active("key = 'pending'", &["state", "result"]),
            frozen("key = 'succeeded'"),
        ],
    ),
    history(
        "outbox",
        &[
            active("idempotency_key = 'pending'", UNSENT),
            active("idempotency_key = 'sending'", UNSENT),
            active("idempotency_key = 'failed'", UNSENT),
            active("idempotency_key = 'aborted' and retry_of is not null", UNSENT),
            deletable("idempotency_key = 'aborted' and retry_of is null"),
            deletable("idempotency_key = 'succeeded'"),
            deletable("idempotency_key = 'alert'"),
        ],
    ),
    history("webhook_events", &[frozen("uid = 'e-1'"), frozen("uid = 'e-2'")]),
    history("webhook_subscriptions", &[active("id = 1", LIVE_SUBSCRIPTION), frozen("id = 2")]),
    free("webhook_subscription_types", DERIVED),
    history(
        "webhook_delivery_sagas",
        &[
            active("id = 1", LIVE_DELIVERY),
            deletable("id = 2"),
            deletable("id = 3"),
            active("id = 4", LIVE_DELIVERY),
            active("id = 5", LIVE_DELIVERY),
            deletable("id = 6"),
        ],
    ),
    history("dead_letters", &[frozen("saga_id = 3"), frozen("saga_id = 6")]),
    history("waiting_dead_letters", &[frozen("saga_id = 6")]),
    history("webhook_attempts", &[frozen("saga_id = 2"), frozen("saga_id = 3")]),
    free("webhook_refusals", EMPTY),
    free("webhook_senders", "it lists the nodes that send"),
    free("webhook_rejected_reports", "it holds reports until the database takes them"),
    free("webhook_pauses", "it shows what nodes hold in memory, until it expires"),
    history("lifecycle_states", &[frozen("state = 'requested'"), frozen("state = 'live'")]),
    history(
        "lifecycles",
        &[
            Row { shut_on_sqlite: true, ..active("id = {id:4}", ACTIVE_LIFECYCLE) },
            deletable("id = {id:5}"),
            deletable("id = {id:6}"),
        ],
    ),
    history("lifecycle_dead_letters", &[deletable("mark = 'm-1'"), deletable("mark = 'm-2'")]),
    history("orders", &[frozen("tx_id = {id:1}"), frozen("tx_id = {id:2}")]),
    history(
        "alert_notices",
        &[
            frozen("channel = 'mail'"),
            Row {
                deletable: true,
                ..active("channel = 'webhook'", &["attempts", "tried_at", "notified_at", "last_error"])
            },
        ],
    ),
    history("alert_recipients", &[frozen("channel = 'mail'"), frozen("channel = 'webhook'")]),
    free("alert_channels", "each start replaces it by what is configured"),
    history("alert_acknowledgements", &[frozen("alert_key = 'alert'")]),
    history("api_keys", &[active("name = 'live'", &["revoked_at"]), frozen("name = 'revoked'")]),
    history("audit", &[frozen("id = 1"), frozen("id = 2")]),
    history("audit_answers", &[frozen("audit_id = 1"), frozen("audit_id = 2")]),
    free("ended_sessions", "it lists sessions until they expire"),
    free("backstitch_product_migrations", MIGRATIONS),
    free("product_migrations", MIGRATIONS),
];

/// The rows, in SQL of both dialects once its placeholders are filled in.
pub(crate) const SEED: &str = "
    insert into document_versions (kind, name, version, fingerprint, body, created_at)
    values
        ('saga', 'd', 1, 1, '{}', {t}), ('saga', 'd', 2, 2, '{}', {t}), ('saga', 'e', 1, 3, '{}', {t}),
        ('saga', 'other', 1, 4, '{}', {t}), ('saga', 'other', 2, 5, '{}', {t}),
        ('lifecycle', 'm', 1, null, '{}', {t}), ('lifecycle', 'm', 2, null, '{}', {t}),
        ('lifecycle', 'other', 1, null, '{}', {t}), ('lifecycle', 'other', 2, null, '{}', {t});
    insert into documents (kind, name, active, staged, changed_at)
    values ('saga', 'd', 1, 2, {t}), ('saga', 'e', 1, null, {t}), ('lifecycle', 'm', 1, 2, {t});

    insert into sagas (id, definition, version, status, wake_at, created_at, updated_at)
    values
        ({id:1}, 'd', 1, 'running', {t}, {t}, {t}), ({id:2}, 'd', 1, 'succeeded', null, {t}, {t}),
        ({id:3}, 'd', 1, 'failed', null, {t}, {t});
    insert into saga_events (saga_id, seq, at, type, data)
    values
        ({id:1}, 1, {t}, 'saga.started', '{}'), ({id:2}, 1, {t}, 'saga.started', '{}'),
        ({id:2}, 2, {t}, 'saga.succeeded', '{}'), ({id:4}, 1, {t}, 'lifecycle.started', '{}');
    insert into saga_attributes (name, value, saga_id) values ('tenant', 'a', {id:1}), ('tenant', 'b', {id:2});
    insert into saga_inbox (saga_id, seq, body, at) values ({id:1}, 1, '{}', {t}), ({id:1}, 2, '[]', {t});

    insert into idempotency_ledger (scope, key, digest, saga_id, at)
    values ('saga/d', 'start', {bytes}, {id:1}, {t}), ('outbox/t', 'pending', {bytes}, null, {t});
    insert into idempotency_ledger (scope, key, digest, state, result, at)
    values ('outbox/t', 'succeeded', {bytes}, 'succeeded', '{}', {t});
    insert into outbox (topic, idempotency_key, payload, status, due_at, created_at, updated_at)
    values
        ('t', 'pending', '{}', 'pending', {t}, {t}, {t}), ('t', 'sending', '{}', 'sending', null, {t}, {t}),
        ('t', 'failed', '{}', 'failed', {t}, {t}, {t}), ('t', 'aborted', '{}', 'aborted', null, {t}, {t}),
        ('t', 'succeeded', '{}', 'succeeded', null, {t}, {t}),
        ('backstitch.alerts', 'alert', '{}', 'succeeded', null, {t}, {t});
    insert into outbox (topic, idempotency_key, payload, due_at, created_at, updated_at, retry_of)
    select topic, idempotency_key, payload, {t}, {t}, {t}, id from outbox where idempotency_key = 'aborted';

    insert into webhook_events (uid, type, webhook_id, digest, created_at, payload)
    values ('e-1', 'order', 'w-1', {bytes}, {t}, '{}'), ('e-2', 'order', 'w-2', {bytes}, {t}, '[]');
    insert into webhook_subscriptions (
        id, url, event_types, headers, max_retry_limit, base_delay_ms, max_delay_ms, timeout_ms, max_concurrency,
        secret, created_at, updated_at
    )
    values
        (1, 'https://a', '[\"order\"]', '[]', 1, 1, 1, 1, 1, {bytes}, {t}, {t}),
        (2, 'https://b', '[\"order\"]', '[]', 1, 1, 1, 1, 1, {bytes}, {t}, {t});
    update webhook_subscriptions set deleted_at = {t} where id = 2;
    insert into webhook_delivery_sagas (
        event_id, subscription_id, next_attempt_at, created_at, updated_at, webhook_id
    )
    values (1, 1, {t}, {t}, {t}, 'w-1'), (1, 2, {t}, {t}, {t}, 'w-1'), (2, 1, {t}, {t}, {t}, 'w-2');
    update webhook_delivery_sagas set status = 'InProgress', job_id = id;
    update webhook_delivery_sagas set status = 'Completed', attempt_count = 1 where id = 2;
    update webhook_delivery_sagas
    set status = 'DeadLettered', attempt_count = 1, final_error_code = 'http_500' where id = 3;
    insert into webhook_delivery_sagas (
        event_id, subscription_id, next_attempt_at, created_at, updated_at, webhook_id, requeue_of
    )
    values (2, 1, {t}, {t}, {t}, 'w-2', 3);
    insert into webhook_delivery_sagas (
        event_id, subscription_id, next_attempt_at, created_at, updated_at, webhook_id, replay_id
    )
    values (2, 1, {t}, {t}, {t}, 'w-2', 'replay'), (1, 1, {t}, {t}, {t}, 'w-1', 'replay');
    update webhook_delivery_sagas set status = 'InProgress', job_id = id where id = 6;
    update webhook_delivery_sagas
    set status = 'DeadLettered', attempt_count = 1, final_error_code = 'http_500' where id = 6;
    insert into webhook_pauses (subscription_id, paused_until, node, reason) values (1, {t}, 'n', 'r');
    insert into webhook_attempts (saga_id, job_id, number, status, finished_at)
    values (2, 2, 1, 'Completed', {t}), (3, 3, 1, 'Failed', {t});

    insert into jobs (saga_id, queue, subject, status, until, created_at)
    values
        ({id:1}, 'q', 'waiting', 'Pending', {t}, {t}), ({id:1}, 'q', 'leased', 'Leased', {t}, {t}),
        ({id:2}, 'q', 'completed', 'Completed', {t}, {t}), ({id:2}, 'q', 'failed', 'Failed', {t}, {t});
    insert into jobs (delivery_id, lane, queue, until, created_at) values (1, 1, 'deliver/webhooks', {t}, {t});
    insert into job_results (job_id, delivery_id, at, error_code)
    values (901, 1, {t}, null), (902, 1, {t}, 'http_500');

    insert into lifecycle_states (machine, version, state, place, terminal)
    values ('m', 1, 'requested', 1, {false}), ('m', 1, 'live', 2, {true});
    insert into lifecycles (
        id, machine, key, version, state, ended, seq, entry, attempt, created_at, updated_at, entered_at, abandoned
    )
    values
        ({id:4}, 'm', 'a', 1, 'requested', {false}, 1, 1, 1, {t}, {t}, {t}, {false}),
        ({id:5}, 'm', 'b', 1, 'live', {true}, 1, 1, 1, {t}, {t}, {t}, {false}),
        ({id:6}, 'm', 'c', 1, 'requested', {false}, 1, 1, 1, {t}, {t}, {t}, {true});
    insert into lifecycle_dead_letters (at, source, body, reason, mark)
    values ({t}, 's', {bytes}, 'r', 'm-1'), ({t}, 's', {bytes}, 'r', 'm-2');

    insert into orders (tx_id, order_id, customer_id, items, amount, created_at)
    values ({id:1}, 'o-1', 'c', '[]', '1', {t}), ({id:2}, 'o-2', 'c', '[]', '2', {t});

    insert into alert_notices (alert_key, channel, attempts, tried_at, notified_at)
    values ('alert', 'mail', 1, {t}, {t}), ('alert', 'webhook', 1, {t}, null);
    insert into alert_acknowledgements (alert_key, acknowledged_by, note, acknowledged_at)
    values ('alert', 'ada', 'n', {t});

    insert into api_keys (hash, role, name, last_four, created_at)
    values ({bytes}, 'admin', 'live', '1234', {t}), ({other_bytes}, 'viewer', 'revoked', '5678', {t});
    update api_keys set revoked_at = {t} where name = 'revoked';
    insert into audit (at, role, method, path) values ({t}, 'admin', 'POST', '/a'), ({t}, 'admin', 'POST', '/b');
    insert into audit_answers (audit_id, at, status) values (1, {t}, 200), (2, {t}, 409);
";
