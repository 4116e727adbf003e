//! The cost of outbox queries does not depend on the number of messages.

use backstitch_kernel::Timestamp;
use backstitch_testkit::scale;
use backstitch_testkit::sql::statement;
use rusqlite::{Connection, Params, StatementStatus, params};

use super::support::{Place, now};

macro_rules! query {
    ($name:literal) => {
        include_str!(concat!("../../../../engine/queries/sqlite/", $name, ".sql"))
    };
}

/// A statement of the engine.
fn query(name: &str) -> String {
    statement("engine", "sqlite", name)
}

const FEW: i64 = 1_000;
/// More messages than the age metrics use.
const MORE_THAN_AGED: i64 = 12_000;
/// Messages per claim.
const SHARE: i64 = 50;

/// An outbox with waiting messages of ten topics: every other one is due, every third one has an ordering key.
fn outbox_with(messages: i64) -> (Place, Connection) {
    let place = Place::new();
    drop(place.open());
    let connection = place.beside();
    connection.execute_batch("pragma journal_mode = memory; pragma synchronous = off").unwrap();
    let mut statement = connection
        .prepare("select name, sql from sqlite_schema where type = 'index' and tbl_name = 'outbox' and sql is not null")
        .unwrap();
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
    let indexes: Vec<(String, String)> = statement.query_map([], read).unwrap().map(Result::unwrap).collect();
    drop(statement);
    // Sorted after all inserts, instead of one by one.
    for (name, _) in &indexes {
        connection.execute_batch(&format!("drop index {name}")).unwrap();
    }
    let written = connection.execute(
        "with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < ?1)
         insert into outbox (topic, idempotency_key, ordering_key, payload, due_at, created_at, updated_at)
         select
             'topic-' || (n % 10), 'key-' || n, case when n % 3 = 0 then 'order-' || n end, '{}',
             ?2 + (n * 7919 % 1000) * case n / 10 % 2 when 0 then -1000000 else 1000000 end, ?2, ?2
         from numbers",
        params![messages, now().as_micros() - 2_000_000_000],
    );
    assert_eq!(i64::try_from(written.unwrap()).unwrap(), messages);
    for (_, sql) in &indexes {
        connection.execute_batch(sql).unwrap();
    }
    (place, connection)
}

/// The number of SQLite VM steps of a statement, and the numbers in its first column.
fn steps(connection: &Connection, sql: &str, values: impl Params) -> (i32, Vec<i64>) {
    let mut statement = connection.prepare(sql).unwrap();
    let mut rows = statement.query(values).unwrap();
    let mut answer = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        answer.extend(row.get::<_, i64>(0).ok());
    }
    drop(rows);
    (statement.get_status(StatementStatus::VmStep), answer)
}

/// The cost of finding topics, claiming messages and settling one.
fn costs(messages: i64) -> [i32; 3] {
    let (_place, connection) = outbox_with(messages);
    let now: Timestamp = now();
    let (looking, _) = steps(&connection, query!("waiting_topics"), [now.as_micros()]);
    let due = params!["topic-3", now.as_micros(), SHARE];
    let (claiming, claimed) = steps(&connection, query!("due_messages"), due);
    assert_eq!(claimed.len(), 50, "there is enough to do");
    connection.execute("update outbox set status = 'sending', lock = 1 where id = ?1", [claimed[0]]).unwrap();
    let end =
        params![claimed[0], 1, "succeeded", 1, None::<i64>, None::<&str>, None::<&str>, now.as_micros()];
    let (settling, _) = steps(&connection, query!("settle_outbox"), end);
    let next = params!["topic-3", "order-3", now.as_micros()];
    let (letting_go, _) = steps(&connection, query!("let_next_go"), next);
    [looking, claiming, settling + letting_go]
}

fn cost_of_ages(messages: i64) -> i32 {
    let (_place, connection) = outbox_with(messages);
    steps(&connection, &query("diagnostics::outbox_ages"), []).0
}

#[test]
fn ages_cost_does_not_grow_beyond_the_counted_messages() {
    let (few, many) = (cost_of_ages(MORE_THAN_AGED), cost_of_ages(scale::rows().max(3 * MORE_THAN_AGED)));
    assert!(few > 0 && many * 2 <= few * 3, "{few} steps became {many}");
}

#[test]
fn claim_and_settle_cost_does_not_grow_with_the_outbox() {
    let (few, many) = (costs(FEW), costs(scale::rows()));
    for (few, many) in few.into_iter().zip(many) {
        assert!(few > 0 && many * 2 <= few * 3, "{few} steps became {many}");
    }
}
