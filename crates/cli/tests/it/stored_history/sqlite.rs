//! Stored history in a SQLite file, under statements of another program.

use std::process::Command;

use backstitch::store::sqlite::allow_guarded_writes;
use rusqlite::Connection;

use super::attempts::{Catalog, Column, Dialect, Shape, assert_complete, attempts, only, queries};
use super::tables::{Row, SEED};
use crate::support::Place;

struct Sqlite;

impl Dialect for Sqlite {
    fn filled(&self, sql: &str) -> String {
        let mut sql = sql.to_owned();
        for number in 1..=6 {
            let id = format!("x'019b000000007000800000000000000{number}'");
            sql = sql.replace(&format!("{{id:{number}}}"), &id);
        }
        sql.replace("{t}", "1700000000000000")
            .replace("{bytes}", "zeroblob(32)")
            .replace("{other_bytes}", "randomblob(32)")
            .replace("{true}", "1")
            .replace("{false}", "0")
    }

    fn overwrites(&self, table: &str, shape: &Shape, find: &str, column: &str, value: &str) -> Vec<String> {
        let copied = shape.copied(table, find, column, value).replace("{overriding} ", "");
        vec![
            format!("insert or replace into {table} {copied}"),
            format!("insert into {table} {copied} on conflict do update set {column} = excluded.{column}"),
            format!("update or replace {table} set {column} = {value} where {find}"),
        ]
    }

    fn truncates(&self, _: &str) -> Vec<String> {
        Vec::new()
    }

    fn as_text(&self, column: &str) -> String {
        format!("quote({column})")
    }

    fn free(&self, row: &Row) -> &'static [&'static str] {
        if row.shut_on_sqlite { &[] } else { row.free }
    }
}

fn texts(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare_cached(sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

fn catalog(connection: &Connection) -> Catalog {
    let tables = "select name from sqlite_schema where type = 'table' and name not like 'sqlite_%'";
    let shape = |table: String| {
        let names = texts(connection, &format!("select name from pragma_table_info('{table}')"));
        let mut columns: Vec<Column> = names
            .into_iter()
            .map(|name| {
                let mut values = texts(
                    connection,
                    &format!("select distinct quote({name}) from {table} order by 1 limit 4"),
                );
                values.extend(["4242", "'other'", "x'00'", "null"].map(str::to_owned));
                Column { name, values, is_listed: true }
            })
            .collect();
        // An update of it goes past triggers that name the column which is its alias.
        if let Ok(mut statement) = connection.prepare(&format!("select rowid from {table}")) {
            let rows = statement.query_map([], |row| row.get::<_, i64>(0)).unwrap();
            let mut values: Vec<String> = rows.map(|id| id.unwrap().to_string()).collect();
            values.push("4242".to_owned());
            columns.push(Column { name: "rowid".to_owned(), values, is_listed: false });
        }
        let key = texts(connection, &format!("select name from pragma_table_info('{table}') where pk > 0"));
        (table, Shape { columns, key })
    };
    texts(connection, tables).into_iter().map(shape).collect()
}

/// A file with the seed, and a connection to it as the sqlite3 shell opens it.
async fn seeded() -> (Place, Connection) {
    let place = Place::Sqlite(tempfile::tempdir().unwrap());
    place.migrate().await;
    let open = || Connection::open(place.db().strip_prefix("sqlite:").unwrap()).unwrap();
    let ours = open();
    allow_guarded_writes(&ours).unwrap();
    ours.execute_batch(&Sqlite.filled(SEED)).unwrap();
    let connection = open();
    connection
        .execute_batch("pragma recursive_triggers = off; pragma foreign_keys = off; pragma synchronous = off")
        .unwrap();
    connection.set_prepared_statement_cache_capacity(200);
    (place, connection)
}

/// As tools do that supply any collation a statement names.
fn supply_collation(connection: &Connection) {
    connection.create_collation("only_backstitch_writes", Ord::cmp).unwrap();
}

fn refuses_every_change(connection: &Connection) {
    let catalog = catalog(connection);
    assert_complete(&catalog);

    let queries = queries(&Sqlite, &catalog);
    let before: Vec<String> = queries.iter().map(|query| only(query, texts(connection, query))).collect();
    for attempt in attempts(&Sqlite, &catalog) {
        connection.execute_batch("begin").unwrap();
        let answer = connection.execute_batch(&attempt);
        for (query, was) in queries.iter().zip(&before) {
            let is = texts(connection, query);
            assert!(is.contains(was), "{attempt}\nanswered {answer:?} and changed\n{was}\nto {is:?}");
        }
        if !connection.is_autocommit() {
            connection.execute_batch("rollback").unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_refuses_every_change_of_stored_history() {
    let (_place, connection) = seeded().await;
    refuses_every_change(&connection);
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_guards_hold_where_a_tool_supplies_the_collation() {
    let (_place, connection) = seeded().await;
    supply_collation(&connection);
    refuses_every_change(&connection);
}

/// Statements on rows that only Backstitch writes, and what a program is told that has a collation of that name.
const GUARDED: [(&str, &str); 13] = [
    (
        "insert or replace into saga_events select * from saga_events",
        "only Backstitch appends to saga_events",
    ),
    ("insert or replace into sagas select * from sagas", "only Backstitch inserts sagas"),
    (
        "insert or replace into saga_attributes select * from saga_attributes",
        "only Backstitch inserts attributes",
    ),
    ("insert or replace into audit select * from audit", "only Backstitch adds to the audit"),
    ("insert or replace into audit_answers select * from audit_answers", "only Backstitch adds to the audit"),
    ("insert or replace into jobs select * from jobs", "only Backstitch inserts jobs"),
    (
        "insert or replace into job_results select * from job_results",
        "only Backstitch inserts results of jobs",
    ),
    ("insert or replace into lifecycles select * from lifecycles", "only Backstitch inserts lifecycles"),
    ("update lifecycles set state = 'live'", "only Backstitch changes lifecycles"),
    ("update lifecycles set state = 'live' where ended", "only Backstitch changes lifecycles"),
    ("insert or replace into webhook_events select * from webhook_events", "only Backstitch inserts events"),
    (
        "insert or replace into webhook_attempts select * from webhook_attempts",
        "only Backstitch inserts attempts",
    ),
    (
        "insert or replace into webhook_delivery_sagas select * from webhook_delivery_sagas",
        "only Backstitch inserts deliveries",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn guards_say_that_only_backstitch_writes_a_row() {
    let (_place, connection) = seeded().await;
    let refusal = |sql| connection.execute(sql, []).unwrap_err().to_string();
    for (sql, _) in GUARDED {
        let told = refusal(sql);
        assert!(told.contains("no such collation sequence: only_backstitch_writes"), "{sql}: {told}");
    }
    supply_collation(&connection);
    for (sql, expected) in GUARDED {
        let told = refusal(sql);
        assert!(told.contains(expected), "{sql}: {told}");
    }
    let append = "insert or fail into saga_events (saga_id, seq, at, type) select saga_id, 99, at, type from saga_events";
    assert!(refusal(append).contains("only Backstitch appends"));
    assert!(texts(&connection, "select type from saga_events where seq = 99").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_statement_of_another_program_changes_no_row() {
    let (_place, connection) = seeded().await;
    // Each may write its first row, and is refused at a later one.
    let statements = [
        ("outbox", "update outbox set status = 'aborted', due_at = null", "it is never sent again"),
        ("outbox", "update outbox set due_at = 1", "it is never sent again"),
        ("jobs", "update jobs set until = 1", "it is never used again"),
        (
            "webhook_delivery_sagas",
            "update webhook_delivery_sagas
             set status = 'DeadLettered', attempt_count = attempt_count + (status = 'InProgress')",
            "the delivery is at its end",
        ),
        ("sagas", "update sagas set updated_at = 1", "the saga is at its end"),
        (
            "idempotency_ledger",
            "update idempotency_ledger set result = 'x'",
            "never changes after its success",
        ),
        (
            "outbox",
            "insert into outbox (topic, idempotency_key, payload) values ('t', 'new', '1'), ('t', 'pending', '1')",
            "a message is never replaced",
        ),
        (
            "idempotency_ledger",
            "insert into idempotency_ledger (scope, key, digest, at)
             values ('outbox/t', 'new', zeroblob(32), 1), ('outbox/t', 'pending', zeroblob(32), 1)",
            "a key is never replaced",
        ),
        (
            "saga_inbox",
            "insert into saga_inbox (saga_id, seq, body, at)
             select saga_id, 3 - rank, body, at from (select *, iif(seq = 1, 0, 1) as rank from saga_inbox)",
            "a message is never replaced",
        ),
    ];
    for (table, sql, expected) in statements {
        let columns = texts(&connection, &format!("select name from pragma_table_info('{table}')"));
        let columns: Vec<String> = columns.iter().map(|name| format!("quote({name})")).collect();
        let rows = format!("select {} from {table}", columns.join(" || ' ' || "));
        let before = texts(&connection, &rows);
        let told = connection.execute(sql, []).unwrap_err().to_string();
        assert!(told.contains(expected), "{sql}: {told}");
        assert_eq!(texts(&connection, &rows), before, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn insert_or_ignore_skips_a_message_that_exists() {
    let (_place, connection) = seeded().await;
    let insert = "insert or ignore into outbox (topic, idempotency_key, payload)
        values ('t', 'pending', '2'), ('t', 'new', '2')";
    assert_eq!(connection.execute(insert, []), Ok(1));
    let written = "select idempotency_key from outbox where payload = '2' and due_at is not null";
    assert_eq!(texts(&connection, written), ["new"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn integrity_check_of_the_sqlite3_shell_is_ok() {
    let (place, connection) = seeded().await;
    for table in ["lifecycle_states", "webhook_pauses"] {
        assert_eq!(texts(&connection, &format!("select 'rows' from {table} limit 1")), ["rows"], "{table}");
    }
    let file = place.db().strip_prefix("sqlite:").unwrap().to_owned();
    let checked = Command::new("sqlite3").args([&file, "pragma integrity_check"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&checked.stdout), "ok\n", "{checked:?}");
}

/// SQLite 3.40 reports null values where a table without rowid has a `not null` column before one of its primary key.
#[tokio::test(flavor = "multi_thread")]
async fn keys_of_tables_without_rowid_come_first() {
    let (_place, connection) = seeded().await;
    let misplaced = "
        select t.name || '.' || before.name
        from pragma_table_list as t, pragma_table_info(t.name) as before, pragma_table_info(t.name) as key
        where t.wr and before.\"notnull\" and before.pk = 0 and key.pk > 0 and before.cid < key.cid
        group by 1";
    assert_eq!(texts(&connection, misplaced), [""; 0]);
}
