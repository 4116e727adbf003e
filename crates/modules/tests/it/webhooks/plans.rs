//! §10.1: no query scans a table of many deliveries.

use backstitch::jobs;
use backstitch::kernel::delivery::Status;
use backstitch::store::sqlite::allow_guarded_writes;
use backstitch_modules::webhooks::{Filter, Which};
use backstitch_testkit::scale;
use rusqlite::{Connection, StatementStatus, params_from_iter};
use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

use crate::webhooks::stage::{Place, Stage, session};

/// One row in a hundred has each status that is asked for, and a query reads a hundred: a tenth of the rows must have as many.
fn rows() -> i64 {
    scale::rows().max(100_000)
}

/// So many deliveries, and events, jobs and dead letters of some of them.
fn sized(sql: &str, count: i64, some: i64) -> String {
    sql.replace("{count}", &count.to_string()).replace("{some}", &some.to_string())
}

/// Deliveries that are over, and a few that are not, with their events and jobs: of those under way a third waits, a third is
/// somebody's whose time is over, and of a third the result has not been taken in. Rows are written as they would stand
/// after a long time, past the rules for those that begin.
const FILL_SQLITE: &str = "
    drop trigger webhook_delivery_sagas_refuse_insert;
    pragma synchronous = off;
    begin;
    with recursive n (i) as (select 1 union all select i + 1 from n where i < {count})
    insert into webhook_delivery_sagas
        (event_id, subscription_id, status, attempt_count, next_attempt_at, final_error_code, created_at, updated_at,
         job_id, webhook_id)
    select
        i, 1 + i % 50,
        case
            when i % 100 = 1 then 'Pending' when i % 100 = 2 then 'PendingRetry' when i % 100 = 4 then 'DeadLettered'
            when i % 100 in (3, 5, 6) then 'InProgress' else 'Completed'
        end,
        case when i % 100 in (1, 3) then 0 else 1 end, i * 1000, case when i % 100 in (2, 4) then 'x' end,
        i * 1000, i * 1000, case when i % 100 <> 1 then i end, 'msg_' || i
    from n;
    insert into jobs (id, delivery_id, lane, queue, until, created_at, status)
    select
        id, id, subscription_id, 'deliver/webhooks', created_at, created_at,
        case id % 100 when 3 then 'Pending' when 5 then 'Leased' else 'Completed' end
    from webhook_delivery_sagas where status = 'InProgress' or status <> 'Pending' and id <= {some};
    insert into job_results (job_id, delivery_id, at)
    select id, id, created_at from webhook_delivery_sagas where status = 'InProgress' and id % 100 = 6;
    insert into webhook_events (uid, type, webhook_id, digest, created_at, payload)
    select 'e-' || id, 'order.created', webhook_id, zeroblob(32), created_at, '{}'
    from webhook_delivery_sagas where id <= {some};
    insert into dead_letters
        (saga_id, event_id, subscription_id, created_at, attempt_count, final_error_code, webhook_id)
    select id, event_id, subscription_id, created_at, 1, 'c-' || id % 1000, webhook_id
    from webhook_delivery_sagas where id <= {some};
    commit;
";

const FILL_POSTGRES: &str = "
    alter table webhook_delivery_sagas disable trigger user;
    insert into webhook_delivery_sagas
        (event_id, subscription_id, status, attempt_count, next_attempt_at, final_error_code, created_at, updated_at,
         job_id, webhook_id)
    select
        i, 1 + i % 50,
        (case
            when i % 100 = 1 then 'Pending' when i % 100 = 2 then 'PendingRetry' when i % 100 = 4 then 'DeadLettered'
            when i % 100 in (3, 5, 6) then 'InProgress' else 'Completed'
        end)::webhook_delivery_status,
        case when i % 100 in (1, 3) then 0 else 1 end, timestamptz 'epoch' + i * interval '1 ms',
        case when i % 100 in (2, 4) then 'x' end, timestamptz 'epoch' + i * interval '1 ms',
        timestamptz 'epoch' + i * interval '1 ms', case when i % 100 <> 1 then i end, 'msg_' || i
    from generate_series(1, {count}) as i;
    insert into jobs (delivery_id, lane, queue, until, created_at, status)
    select
        id, subscription_id, 'deliver/webhooks', created_at, created_at,
        case id % 100 when 3 then 'Pending' when 5 then 'Leased' else 'Completed' end
    from webhook_delivery_sagas where status = 'InProgress' or status <> 'Pending' and id <= {some};
    insert into job_results (job_id, delivery_id, at)
    select id, id, created_at from webhook_delivery_sagas where status = 'InProgress' and id % 100 = 6;
    insert into webhook_events (uid, type, webhook_id, digest, created_at, payload)
    select 'e-' || id, 'order.created', webhook_id, decode(repeat('00', 32), 'hex'), created_at, '{}'
    from webhook_delivery_sagas where id <= {some};
    insert into dead_letters
        (saga_id, event_id, subscription_id, created_at, attempt_count, final_error_code, webhook_id)
    select id, event_id, subscription_id, created_at, 1, 'c-' || id % 1000, webhook_id
    from webhook_delivery_sagas where id <= {some};
    analyze;
";

/// Statistics from a time when every delivery was completed, and then {count} that wait. The planner takes those for rare.
const FILL_STALE: &str = "
    insert into webhook_delivery_sagas
        (event_id, subscription_id, status, attempt_count, next_attempt_at, created_at, updated_at, webhook_id)
    select i, 1, 'Completed', 1, {time}, {time}, {time}, 'msg_' || i from {numbers};
    analyze webhook_delivery_sagas;
    insert into webhook_delivery_sagas
        (event_id, subscription_id, status, attempt_count, next_attempt_at, final_error_code, created_at, updated_at,
         job_id, webhook_id)
    select {count} + i, 1, {status}, i % 2, {time}, case when i % 2 = 1 then 'x' end, {time}, {time}, i, 'msg_' || i
    from {numbers};
";

fn stale(numbers: &str, time: &str, status: &str, count: i64) -> String {
    let status = status
        .replace("{}", "case i % 4 when 0 then 'Pending' when 2 then 'InProgress' else 'PendingRetry' end");
    FILL_STALE
        .replace("{numbers}", numbers)
        .replace("{time}", time)
        .replace("{status}", &status)
        .replace("{count}", &count.to_string())
}

/// A time after everything that was filled in.
const LATER: i64 = 2_000_000_000_000;

macro_rules! sqlite {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../src/webhooks/sqlite/", $name, ".sql")))
    };
}
/// A statement of the engine's lease queue.
macro_rules! queued {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../../engine/src/jobs/sqlite/", $name, ".sql")))
    };
}
/// One of the lease queue on a server, in its parts.
macro_rules! queued_on_server {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../../engine/src/jobs/postgres/", $name, ".sql")))
    };
    ($pick:literal, $change:literal) => {
        (
            $change,
            concat!(
                include_str!(concat!("../../../../engine/src/jobs/postgres/", $pick, ".part")),
                include_str!(concat!("../../../../engine/src/jobs/postgres/", $change, ".part"))
            ),
        )
    };
}
macro_rules! both {
    ($dialect:literal, $name:literal) => {
        ($name, include_str!(concat!("../../../queries/", $dialect, "/webhooks/", $name, ".sql")))
    };
}

type Values = Vec<rusqlite::types::Value>;

/// Every query that finds deliveries or jobs by where they stand and when they are due, as it is asked.
fn asked_of_a_file() -> Vec<((&'static str, &'static str), Values, &'static str)> {
    let text = |word: &str| rusqlite::types::Value::from(word.to_owned());
    let number = rusqlite::types::Value::from;
    vec![
        (sqlite!("due"), vec![text("Pending"), number(LATER), number(100)], "idx_saga_status_retry"),
        (sqlite!("due"), vec![text("PendingRetry"), number(LATER), number(100)], "idx_saga_status_retry"),
        (both!("sqlite", "next_due"), vec![number(LATER)], "idx_saga_status_retry"),
        (both!("sqlite", "oldest_due"), vec![number(LATER)], "idx_saga_status_retry"),
        (
            both!("sqlite", "finished"),
            vec![text("Completed"), number(LATER), number(0), number(100)],
            "idx_saga_status (status=? AND rowid>?)",
        ),
        (
            both!("sqlite", "deliveries_by_status"),
            vec![text("DeadLettered"), number(50_000), number(51)],
            "idx_saga_status (status=? AND rowid<?)",
        ),
        (
            queued!("due_in_partition"),
            vec![number(4), number(LATER), number(100), text("x")],
            "jobs_due_in_lane",
        ),
        (
            ("PARTITIONS", jobs::PARTITIONS.sqlite),
            vec![number(0), number(100), text("x"), number(LATER)],
            "jobs_due_in_lane",
        ),
        (
            ("WAITING_PARTITIONS", jobs::WAITING_PARTITIONS.sqlite),
            vec![text("[1,2]"), text("x"), number(LATER)],
            "jobs_due_in_lane",
        ),
        (("WAITING", jobs::WAITING.sqlite), vec![text("[1,2]"), number(100)], "jobs_due_in_lane"),
        (("LEASE_HOLDERS", jobs::LEASE_HOLDERS.sqlite), vec![], "jobs_held"),
        (
            queued!("expired"),
            vec![text("deliver/webhooks"), number(LATER), number(100), text("x")],
            "jobs_leased",
        ),
        (sqlite!("known_event"), vec![text("e-7")], "uniq_saga_event_subscription"),
        (both!("sqlite", "find_requeue"), vec![number(7)], "uniq_saga_requeue"),
        (
            both!("sqlite", "recent_dead_letters"),
            vec![number(0), number(LATER), number(10)],
            "idx_dead_letter_created",
        ),
        (both!("sqlite", "unrequeued"), vec![], "idx_waiting_letter_subscription"),
        (both!("sqlite", "disabled_subscriptions"), vec![number(0), number(10)], "idx_subscription_disabled"),
        (
            both!("sqlite", "conditions"),
            vec![text("[1,2]"), number(100), number(1001)],
            "idx_saga_subscription (subscription_id=?)",
        ),
        (
            both!("sqlite", "replayable"),
            vec![number(0), number(LATER), number(0), number(0), number(100)],
            "idx_event_created",
        ),
        (
            both!("sqlite", "old_events"),
            vec![number(LATER), number(0), number(0), number(100)],
            "idx_event_created",
        ),
        (both!("sqlite", "prunable_events"), vec![text("[7,8]"), number(LATER)], "idx_saga_event"),
        (both!("sqlite", "paused_deliveries"), vec![text("[7,8]"), number(0)], "INTEGER PRIMARY KEY"),
    ]
}

/// What is read from its beginning to its end: what a query itself has put together, or as far as its limit goes.
const READ_WHOLE: [(&str, &str); 8] = [
    // Paused subscriptions, and nothing else.
    ("end_pauses", "SCAN webhook_pauses"),
    ("next_subscription", "SCAN sqlite_sequence"),
    // One row each.
    ("oldest_due", "SCAN pending"),
    ("oldest_due", "SCAN retrying"),
    ("oldest_due", "SCAN begun"),
    ("recent_dead_letters", "SCAN (subquery-1)"),
    ("unrequeued", "SCAN waiting"),
    ("unrequeued", "SCAN waiting_dead_letters USING COVERING INDEX idx_waiting_letter_subscription"),
];

/// Every query there is in a dialect, with its name.
fn all_of(dialect: &str) -> Vec<(String, String)> {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders =
        [here.join("queries").join(dialect).join("webhooks"), here.join("src/webhooks").join(dialect)];
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let paths = files.map(|file| file.unwrap().path());
    let queries =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "sql")).map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(&path).unwrap())
        });
    queries.collect()
}

/// How a file would answer, whatever it is asked with.
fn plan_of(connection: &Connection, sql: &str) -> Vec<String> {
    let mut plan = connection.prepare(&format!("explain query plan {sql}")).unwrap();
    let nothing = std::iter::repeat_n(rusqlite::types::Null, plan.parameter_count());
    let lines = plan.query_map(params_from_iter(nothing), |row| row.get(3)).unwrap();
    lines.map(Result::unwrap).collect()
}

/// How much work each question is.
fn work(connection: &Connection) -> Vec<(&'static str, i32)> {
    let questions = asked_of_a_file().into_iter();
    let measured = questions.map(|((name, sql), values, index)| {
        let plan: Vec<String> = {
            let mut plan = connection.prepare(&format!("explain query plan {sql}")).unwrap();
            let rows = plan.query_map(params_from_iter(&values), |row| row.get(3)).unwrap();
            rows.map(Result::unwrap).collect()
        };
        assert!(plan.iter().any(|line| line.contains(index)), "{name} does not use {index}: {plan:?}");
        let mut statement = connection.prepare(sql).unwrap();
        let mut rows = statement.query(params_from_iter(&values)).unwrap();
        while rows.next().unwrap().is_some() {}
        drop(rows);
        (name, statement.get_status(StatementStatus::VmStep))
    });
    measured.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn s10_1_queries_by_status_and_time_use_their_index_on_sqlite() {
    let [mut small, mut large] = [Vec::new(), Vec::new()];
    for (count, found) in [(rows() / 10, &mut small), (rows(), &mut large)] {
        let stage = Stage::sqlite().await;
        for _ in 0..50 {
            stage.subscribe(&["*"], 8).await;
        }
        let Place::Sqlite(folder) = &stage.place else { return };
        let connection = Connection::open(folder.path().join("hooks.db")).unwrap();
        allow_guarded_writes(&connection).unwrap();
        connection.execute_batch(&sized(FILL_SQLITE, count, rows() / 10)).unwrap();
        *found = work(&connection);
        for (name, sql) in all_of("sqlite") {
            for line in plan_of(&connection, &sql) {
                let is_small =
                    ["VIRTUAL TABLE", "CONSTANT ROW", "(subquery-"].iter().any(|small| line.contains(small))
                        || READ_WHOLE.contains(&(name.as_str(), line.as_str()));
                assert!(!line.starts_with("SCAN") || is_small, "{name}: {line}");
            }
        }
    }
    for ((name, few), (_, many)) in small.iter().zip(&large) {
        assert!(f64::from(*many) <= f64::from(*few) * 1.5 + 100.0, "{name}: {few} steps became {many}");
    }
}

/// Queries about rows whose numbers they are given, about subscriptions and their pauses, and about the few nodes that send.
const BY_NUMBER: [&str; 29] = [
    "attempts",
    "beat",
    "bulk_of_events",
    "change_subscription",
    "delete_subscription",
    "disable_subscription",
    "enable_subscription",
    "export_attempts",
    "export_deliveries",
    "export_events",
    "forget_rejected_report",
    "gone_subscription",
    "ingest",
    "insert_rejected_report",
    "insert_subscription",
    "leave",
    "list_subscriptions",
    "load_delivery",
    "load_event",
    "load_subscription",
    "next_subscription",
    "paused_subscriptions",
    "prunable_deliveries",
    "prune_attempts",
    "rejected_report",
    "rejected_reports",
    "remove_conflicting_letter",
    "rotate_secret",
    "write_pauses",
];

/// What an index is asked for that finds a delivery by its number, with or without its status.
const BY_ITS_NUMBER: &str = "(id = g.id)";

/// What finds all that there is about a subscription.
const OF_A_SUBSCRIPTION: &[&str] = &["idx_saga_subscription", "idx_dead_letter_subscription"];

/// A query with its name, what it is asked with, and the indexes it must use.
type Question<'a> = ((&'a str, &'a str), Vec<&'a (dyn ToSql + Sync)>, &'a [&'a str]);

macro_rules! server {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../src/webhooks/postgres/", $name, ".sql")))
    };
}

#[tokio::test(flavor = "multi_thread")]
async fn s10_1_queries_by_status_and_time_use_their_index_on_postgres() {
    let stage = Stage::postgres().await;
    for _ in 0..50 {
        stage.subscribe(&["*"], 8).await;
    }
    let Place::Postgres { address, session: filling } = &stage.place else { return };
    filling.batch_execute("set search_path = backstitch").await.unwrap();
    filling.batch_execute(&sized(FILL_POSTGRES, rows(), 100_000)).await.unwrap();
    let session = session(address).await;
    // As the parts ask, but free to scan.
    session.batch_execute("set plan_cache_mode = force_custom_plan; set jit = off").await.unwrap();
    let later = std::time::UNIX_EPOCH + std::time::Duration::from_micros(LATER.unsigned_abs());
    let epoch = std::time::UNIX_EPOCH;
    let (pending, retry, completed, queue, code) =
        ("Pending", "PendingRetry", "Completed", "deliver/webhooks", "x");
    let (hundred, none, fifth, ids) = (100_i64, 0_i64, 5_i32, vec![7_i64, 8, 9]);
    let (later_id, all) = (500_000_i64, None::<Vec<i64>>);
    let (words, uids, times) = (vec!["x", "x", "x"], vec!["e-7", "e-8"], vec![epoch; 3]);
    let chosen = "[7,8,9]";
    let (counts, enqueued, queues) = (vec![1_i32; 3], vec![true; 3], vec![queue]);
    let mut asked: Vec<Question<'_>> = vec![
        (server!("due"), vec![&pending, &hundred], &["idx_saga_status_retry"]),
        (server!("due"), vec![&retry, &hundred], &["idx_saga_status_retry"]),
        (both!("postgres", "next_due"), vec![], &["idx_saga_status_retry"]),
        (both!("postgres", "oldest_due"), vec![], &["idx_saga_status_retry"]),
        (both!("postgres", "finished"), vec![&completed, &later, &none, &hundred], &["idx_saga_status_id"]),
        // Those of a rare status may also be put in order when all of them are found.
        (both!("postgres", "deliveries_by_status"), vec![&retry, &later_id, &hundred], &["idx_saga_status"]),
        (
            both!("postgres", "deliveries_by_status"),
            vec![&completed, &later_id, &hundred],
            &["idx_saga_status_id"],
        ),
        (
            queued_on_server!("due_in_partitions", "lease"),
            vec![&ids, &ids, &ids, &all, &code, &code, &times],
            &["jobs_due_in_lane"],
        ),
        (("PARTITIONS", jobs::PARTITIONS.postgres), vec![&none, &hundred, &code], &["jobs_due_in_lane"]),
        (
            ("WAITING_PARTITIONS", jobs::WAITING_PARTITIONS.postgres),
            vec![&chosen, &code],
            &["jobs_due_in_lane"],
        ),
        (("WAITING", jobs::WAITING.postgres), vec![&chosen, &hundred], &["jobs_due_in_lane"]),
        (
            queued_on_server!("expired", "expire"),
            vec![&queues, &hundred, &all, &code, &fifth, &code],
            &["jobs_leased"],
        ),
        (
            queued_on_server!("waiting_in_partition", "withdraw"),
            vec![&none, &hundred, &all, &code, &code],
            &["jobs_due_in_lane"],
        ),
        (server!("known_events"), vec![&uids], &["uniq_saga_event_subscription"]),
        (both!("postgres", "find_requeue"), vec![&none], &["uniq_saga_requeue"]),
        (both!("postgres", "conditions"), vec![&chosen, &hundred, &hundred], OF_A_SUBSCRIPTION),
        (both!("postgres", "paused_deliveries"), vec![&chosen, &hundred], &["webhook_delivery_sagas_pkey"]),
        (
            both!("postgres", "replayable"),
            vec![&epoch, &later, &epoch, &none, &hundred],
            &["idx_event_created"],
        ),
        (both!("postgres", "old_events"), vec![&later, &epoch, &none, &hundred], &["idx_event_created"]),
        (
            both!("postgres", "prunable_events"),
            vec![&chosen, &later],
            &["webhook_events_pkey", "idx_saga_event"],
        ),
        (both!("postgres", "prune_events"), vec![&chosen], &["webhook_events_pkey", "idx_saga_event"]),
        (both!("postgres", "prune_deliveries"), vec![&chosen], &["webhook_delivery_sagas_pkey"]),
        (both!("postgres", "prune_dead_letters"), vec![&chosen], &["dead_letters_pkey"]),
        (both!("postgres", "replay"), vec![&chosen, &none, &code, &later], &["webhook_events_pkey"]),
        (both!("postgres", "requeue"), vec![&chosen, &later], &["dead_letters_pkey", "webhook_events_pkey"]),
        (server!("apply_results"), vec![&ids, &ids, &words, &counts, &times, &words], &[BY_ITS_NUMBER]),
        (queued_on_server!("enqueue_items"), vec![&ids, &ids, &enqueued, &queue], &["jobs_active_delivery"]),
    ];
    asked.extend(asked_by_the_doctor(&epoch, &later, &hundred));
    asked.extend(asked_now_and_then());
    let mut unseen: Vec<String> = all_of("postgres").into_iter().map(|(name, _)| name).collect();
    unseen.retain(|name| !asked.iter().any(|((seen, _), ..)| seen == name));
    unseen.sort_unstable();
    assert_eq!(
        unseen, BY_NUMBER,
        "every query is looked at here, or is about rows whose numbers it is given"
    );
    for ((name, sql), values, indexes) in asked {
        let plan = explained(&session, sql, &values).await;
        assert_uses(name, &plan, indexes);
    }
    explain_lists(&stage, &session).await;
}

/// Every list with each of its filters.
async fn explain_lists(stage: &Stage, session: &Client) {
    let epoch = std::time::UNIX_EPOCH;
    for (name, text, index) in lists(stage, session).await {
        let asked = session.prepare(&format!("explain {text}")).await.unwrap();
        let values: Vec<&(dyn ToSql + Sync)> = asked
            .params()
            .iter()
            .enumerate()
            .map(|(place, kind)| {
                let value: &(dyn ToSql + Sync) = match *kind {
                    Type::TIMESTAMPTZ => &epoch,
                    Type::TEXT | Type::VARCHAR => &"c-7",
                    _ if place + 1 == asked.params().len() => &501_i64,
                    // Where to go on, which leaves half of them.
                    _ if place + 2 == asked.params().len() => &50_000_i64,
                    // One of few: for one that every other row has, the rows themselves are as good an index.
                    _ => &777_777_i64,
                };
                value
            })
            .collect();
        let plan = explained(session, &text, &values).await;
        assert_uses(&name, &plan, &[]);
        // Of several filters that have one, the server chooses by what it knows of the rows.
        let good = [index, "idx_saga_subscription", "idx_dead_letter_subscription", "idx_dead_letter_code"];
        assert!(good.iter().any(|index| plan.contains(index)), "{name} uses none of {good:?}:\n{plan}");
    }
}

/// What is asked whether or not anybody wants something.
fn asked_now_and_then() -> [Question<'static>; 1] {
    [(("LEASE_HOLDERS", jobs::LEASE_HOLDERS.postgres), vec![], &["jobs_held"])]
}

/// What is asked by whoever looks for what is wrong.
fn asked_by_the_doctor<'a>(
    begin: &'a std::time::SystemTime,
    middle: &'a std::time::SystemTime,
    limit: &'a i64,
) -> [Question<'a>; 3] {
    [
        (both!("postgres", "recent_dead_letters"), vec![begin, middle, limit], &["idx_dead_letter_created"]),
        (both!("postgres", "unrequeued"), vec![], &["idx_waiting_letter_subscription"]),
        (both!("postgres", "disabled_subscriptions"), vec![limit, limit], &[]),
    ]
}

async fn explained(session: &Client, sql: &str, values: &[&(dyn ToSql + Sync)]) -> String {
    let rows = session.query(&format!("explain {sql}"), values).await.unwrap();
    let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    plan.join("\n")
}

fn assert_uses(name: &str, plan: &str, indexes: &[&str]) {
    for table in ["webhook_delivery_sagas", "webhook_events", "jobs", "dead_letters"] {
        let scans = plan.lines().any(|line| {
            let mut words = line.split("Seq Scan on ");
            words.nth(1).is_some_and(|rest| rest.split_whitespace().next() == Some(table))
        });
        assert!(!scans, "{name} scans {table}:\n{plan}");
    }
    for index in indexes {
        assert!(plan.contains(index), "{name} does not use {index}:\n{plan}");
    }
}

/// Every way to ask for a list, as the server heard it, and the index that finds it.
async fn lists(stage: &Stage, session: &Client) -> Vec<(String, String, &'static str)> {
    let heard = "select query from pg_stat_activity
        where datname = current_database() and query like 'select found.%' order by query_start desc limit 1";
    let (deliveries, letters) = (&stage.webhooks.deliveries, &stage.webhooks.dead_letters);
    let mut all: Vec<(String, String, &str)> = Vec::new();
    // One status alone is a query of its own.
    for mask in (0..8).filter(|mask| *mask != 4) {
        let has = |bit: i32| mask & bit != 0;
        let filter = Filter {
            event_id: has(1).then_some(7),
            subscription_id: has(2).then_some(7),
            status: has(4).then_some(Status::Pending),
        };
        deliveries.list(&filter, 50, None).await.unwrap();
        let index = match filter {
            Filter { event_id: Some(_), .. } => "idx_saga_event",
            Filter { subscription_id: Some(_), .. } => "idx_saga_subscription",
            _ => "webhook_delivery_sagas_pkey",
        };
        all.push((format!("{filter:?}"), session.query_one(heard, &[]).await.unwrap().get(0), index));
    }
    for mask in 0..64 {
        let has = |bit: i32| mask & bit != 0;
        let which = Which {
            event_id: has(1).then_some(7),
            subscription_id: has(2).then_some(7),
            final_error_code: has(4).then(|| "c-7".to_owned()),
            since: has(8).then_some(stage.now()),
            until: has(16).then_some(stage.now()),
            not_requeued: has(32),
            up_to: None,
        };
        let [all_of_them, waiting] = match which {
            Which { event_id: Some(_), .. } => ["idx_dead_letter_event", "idx_waiting_letter_event"],
            Which { subscription_id: Some(_), .. } => {
                ["idx_dead_letter_subscription", "idx_waiting_letter_subscription"]
            }
            Which { final_error_code: Some(_), .. } => ["idx_dead_letter_code", "idx_waiting_letter_code"],
            _ => ["dead_letters_pkey", "waiting_dead_letters_pkey"],
        };
        let index = if which.not_requeued { waiting } else { all_of_them };
        letters.list(&which, 50, None).await.unwrap();
        all.push((format!("{which:?}"), session.query_one(heard, &[]).await.unwrap().get(0), index));
        // None is requeued, but what could be is looked for.
        letters.requeue_matching(&which, 0, None).await.unwrap();
        let text = session.query_one(heard, &[]).await.unwrap().get(0);
        all.push((format!("requeueing {which:?}"), text, waiting));
    }
    let asked: std::collections::HashSet<&str> = all.iter().map(|(_, text, _)| text.as_str()).collect();
    assert_eq!(asked.len(), 7 + 64 + 32, "each is heard, and requeueing always wants what was not requeued");
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn no_list_of_a_file_scans_or_sorts() {
    let [file, server] = Stage::each().await;
    let (Place::Sqlite(folder), Place::Postgres { session, .. }) = (&file.place, &server.place) else {
        return;
    };
    let connection = Connection::open(folder.path().join("hooks.db")).unwrap();
    allow_guarded_writes(&connection).unwrap();
    for (name, text, index) in lists(&server, session).await {
        let plan = plan_of(&connection, &text.replace('$', "?").replace("status::text", "status"));
        let index = if index.ends_with("_pkey") { "INTEGER PRIMARY KEY" } else { index };
        assert!(plan.iter().any(|line| line.contains(index)), "{name} does not use {index}: {plan:?}");
        let scans = |line: &String| line.starts_with("SCAN") && line != "SCAN found";
        assert!(!plan.iter().any(scans), "{name} scans: {plan:?}");
        // What was found is put in order once more, which it has already.
        let mut finding = plan.iter().take_while(|line| *line != "SCAN found");
        let sorts = finding.any(|line| line.contains("TEMP B-TREE"));
        // The deliveries of one event are few.
        assert!(!sorts || index == "idx_saga_event", "{name} sorts: {plan:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s10_1_stale_statistics_keep_the_retry_index_on_sqlite() {
    let stage = Stage::sqlite().await;
    stage.subscribe(&["*"], 8).await;
    let Place::Sqlite(folder) = &stage.place else { return };
    let connection = Connection::open(folder.path().join("hooks.db")).unwrap();
    allow_guarded_writes(&connection).unwrap();
    connection
        .execute_batch("drop trigger webhook_delivery_sagas_refuse_insert; pragma synchronous = off")
        .unwrap();
    let count = rows() / 10;
    let numbers = format!(
        "(with recursive n (i) as (select 1 union all select i + 1 from n where i < {count}) select i from n)"
    );
    connection.execute_batch(&stale(&numbers, "i * 1000", "{}", count)).unwrap();
    for (name, sql) in [sqlite!("due"), both!("sqlite", "next_due"), both!("sqlite", "oldest_due")] {
        let plan = plan_of(&connection, sql);
        let found: Vec<&String> = plan.iter().filter(|line| line.contains("idx_saga")).collect();
        assert!(found.iter().all(|line| line.contains("idx_saga_status_retry")), "{name}: {plan:?}");
        assert!(
            !found.is_empty() && !plan.iter().any(|line| line.contains("TEMP B-TREE")),
            "{name}: {plan:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s10_1_stale_statistics_keep_the_retry_index_on_postgres() {
    let stage = Stage::postgres().await;
    stage.subscribe(&["*"], 8).await;
    let Place::Postgres { address, .. } = &stage.place else { return };
    let session = session(address).await;
    session
        .batch_execute(
            "alter table webhook_delivery_sagas disable trigger user;
             alter table webhook_delivery_sagas set (autovacuum_enabled = off);
             set plan_cache_mode = force_custom_plan; set jit = off",
        )
        .await
        .unwrap();
    let numbers = format!("generate_series(1, {}) as i", rows());
    let time = "timestamptz 'epoch' + i * interval '1 ms'";
    session.batch_execute(&stale(&numbers, time, "({})::webhook_delivery_status", rows())).await.unwrap();
    let (pending, retry, hundred) = ("Pending", "PendingRetry", 100_i64);
    let asked: [Question<'_>; 4] = [
        (server!("due"), vec![&pending, &hundred], &[]),
        (server!("due"), vec![&retry, &hundred], &[]),
        (both!("postgres", "next_due"), vec![], &[]),
        (both!("postgres", "oldest_due"), vec![], &[]),
    ];
    for ((name, sql), values, _) in asked {
        let plan = explained(&session, &format!("(analyze, costs off, timing off) {sql}"), &values).await;
        assert_uses(name, &plan, &["idx_saga_status_retry"]);
        for waste in ["Sort", "idx_saga_status on", "Rows Removed"] {
            assert!(!plan.contains(waste), "{name} has {waste:?}:\n{plan}");
        }
    }
}

/// Statistics from a time when {known} deliveries had ended, and then {count} more. The planner takes those for rare.
const FILL_STALE_ENDS: &str = "
    insert into webhook_delivery_sagas
        (event_id, subscription_id, status, attempt_count, next_attempt_at, created_at, updated_at, webhook_id)
    select i, 1, {status}, 1, {time}, {time}, {time}, 'msg_' || i from {numbers};
    analyze webhook_delivery_sagas;
    insert into webhook_delivery_sagas
        (event_id, subscription_id, status, attempt_count, next_attempt_at, created_at, updated_at, webhook_id)
    select {count} + i, 1, 'Completed', 1, {time}, {time}, {time}, 'msg_' || i from {numbers};
";

fn stale_ends(numbers: &str, time: &str, status: &str, known: i64, count: i64) -> String {
    let known = format!("case when i <= {known} then 'Completed' else 'Pending' end");
    FILL_STALE_ENDS
        .replace("{numbers}", numbers)
        .replace("{time}", time)
        .replace("{status}", &status.replace("{}", &known))
        .replace("{count}", &count.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn stale_statistics_do_not_make_retention_sort_on_sqlite() {
    let stage = Stage::sqlite().await;
    let Place::Sqlite(folder) = &stage.place else { return };
    let connection = Connection::open(folder.path().join("hooks.db")).unwrap();
    allow_guarded_writes(&connection).unwrap();
    connection
        .execute_batch("drop trigger webhook_delivery_sagas_refuse_insert; pragma synchronous = off")
        .unwrap();
    let count = rows() / 10;
    let numbers = format!(
        "(with recursive n (i) as (select 1 union all select i + 1 from n where i < {count}) select i from n)"
    );
    connection.execute_batch(&stale_ends(&numbers, "i * 1000", "{}", 400, count)).unwrap();
    let (_, sql) = both!("sqlite", "finished");
    let plan = plan_of(&connection, sql);
    let found: Vec<&String> = plan.iter().filter(|line| line.contains(" s ")).collect();
    assert!(
        matches!(&found[..], [one] if one.contains("idx_saga_status (status=? AND rowid>?)")),
        "{plan:?}"
    );
    assert!(!plan.iter().any(|line| line.contains("TEMP B-TREE")), "{plan:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stale_statistics_do_not_make_retention_sort_on_postgres() {
    for known in [0, 400] {
        let stage = Stage::postgres().await;
        let Place::Postgres { address, .. } = &stage.place else { return };
        let session = session(address).await;
        session
            .batch_execute(
                "alter table webhook_delivery_sagas disable trigger user;
                 alter table webhook_delivery_sagas set (autovacuum_enabled = off);
                 set plan_cache_mode = force_custom_plan; set jit = off",
            )
            .await
            .unwrap();
        let numbers = format!("generate_series(1, {}) as i", rows());
        let (time, status) = ("timestamptz 'epoch' + i * interval '1 ms'", "({})::webhook_delivery_status");
        session.batch_execute(&stale_ends(&numbers, time, status, known, rows())).await.unwrap();
        let later = std::time::UNIX_EPOCH + std::time::Duration::from_micros(LATER.unsigned_abs());
        let (completed, hundred) = ("Completed", 100_i64);
        for from in [0, rows() + rows() / 2] {
            let (_, sql) = both!("postgres", "finished");
            let values: [&(dyn ToSql + Sync); 4] = [&completed, &later, &from, &hundred];
            let plan = explained(&session, &format!("(analyze, costs off, timing off) {sql}"), &values).await;
            assert_uses("finished", &plan, &["idx_saga_status_id"]);
            for waste in ["Sort", "idx_saga_status on", "idx_saga_status_retry", "Rows Removed"] {
                assert!(!plan.contains(waste), "{known} known, from {from}: {waste:?}:\n{plan}");
            }
        }
    }
}
