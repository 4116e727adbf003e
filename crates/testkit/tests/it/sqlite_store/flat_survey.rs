//! The cost of the diagnostics does not depend on the number of active or ended sagas.

use backstitch_testkit::scale;
use backstitch_testkit::sql::statement;
use rusqlite::{Connection, Params, StatementStatus, params};

use super::support::{Place, now};

/// A statement of the engine.
fn query(name: &str) -> String {
    statement("engine", "sqlite", name)
}

const FEW: i64 = 1_000;

/// Sagas of three definitions, a third owned by ten nodes, a third waiting, a third ended; and as many jobs.
fn sagas(count: i64) -> (Place, Connection) {
    let place = Place::new();
    drop(place.open());
    let connection = place.beside();
    connection.execute_batch("pragma journal_mode = memory; pragma synchronous = off").unwrap();
    let written = connection.execute(
        "with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < ?1)
         insert into sagas (id, definition, version, status, owner, wake_at, created_at, updated_at)
         select
             unhex(printf('%032x', n)), 'definition-' || (n / 3 % 3), 1,
             case n % 3 when 2 then 'succeeded' else 'running' end,
             case n % 3 when 0 then 1 + n / 9 % 10 end, case n % 3 when 1 then ?2 + n end, ?2, ?2
         from numbers",
        params![count, now().as_micros()],
    );
    assert_eq!(i64::try_from(written.unwrap()).unwrap(), count);
    let jobs = "insert into jobs (saga_id, queue, status, until, created_at)
        select id, 'queue-' || (n % 7), case n % 2 when 0 then 'Leased' else 'Pending' end, created_at + n, created_at
        from (select id, created_at, row_number() over () as n from sagas where status = 'running')";
    assert!(connection.execute(jobs, []).unwrap() > 0);
    (place, connection)
}

/// The number of SQLite VM steps of a statement, and whether it found a row.
fn steps(connection: &Connection, sql: &str, values: impl Params) -> (i32, bool) {
    let mut statement = connection.prepare(sql).unwrap();
    let mut rows = statement.query(values).unwrap();
    let mut found = false;
    while rows.next().unwrap().is_some() {
        found = true;
    }
    drop(rows);
    (statement.get_status(StatementStatus::VmStep), found)
}

/// The query for stuck sagas reads none that only wait for their time.
fn cost_of_stuck(count: i64) -> i32 {
    let (_place, connection) = sagas(count);
    connection
        .execute_batch(
            "update sagas set owner = null, wake_at = 9000000000000000 where owner is not null;
             insert into document_versions select distinct 'saga', definition, version, 0, '', 0 from sagas",
        )
        .unwrap();
    let now = now().as_micros();
    let (steps, found) = steps(&connection, &query("sagas::stuck"), params![now, 100]);
    assert!(!found);
    steps
}

#[test]
fn waiting_sagas_cost_nothing_in_the_stuck_query() {
    let (few, many) = (cost_of_stuck(FEW), cost_of_stuck(scale::rows()));
    assert!(few > 0 && many * 2 <= few * 3, "{few} steps became {many}");
}

fn costs(count: i64) -> [i32; 5] {
    let (_place, connection) = sagas(count);
    let asked = [
        steps(&connection, &query("sagas::orphaned"), [100]),
        steps(&connection, &query("diagnostics::owners"), params!["definition-1", 1, 5]),
        steps(&connection, &query("diagnostics::waiting_sagas"), params!["definition-1", 1]),
        steps(&connection, &query("diagnostics::leased_queues"), ["queue-3"]),
        steps(&connection, &query("diagnostics::pending_queues"), ["queue-3"]),
    ];
    assert_eq!(asked.map(|(_, found)| found), [false, true, true, true, true]);
    asked.map(|(steps, _)| steps)
}

#[test]
fn diagnostics_cost_does_not_grow_with_the_sagas() {
    let (few, many) = (costs(FEW), costs(scale::rows()));
    for (few, many) in few.into_iter().zip(many) {
        assert!(few > 0 && many * 2 <= few * 3, "{few} steps became {many}");
    }
}

/// The cost of counts of active sagas, each limited to ten thousand.
fn costs_of_counts(count: i64) -> [i32; 3] {
    let (_place, connection) = sagas(count);
    let kept =
        "insert into document_versions select distinct 'saga', definition, version, 0, '', 0 from sagas";
    connection.execute_batch(kept).unwrap();
    let (later, enough) = (now().as_micros() + count, 10_001);
    let asked = [
        steps(&connection, &query("diagnostics::active"), [enough]),
        steps(&connection, &query("diagnostics::unregistered"), params![later, enough]),
        steps(&connection, &query("documents::in_flight"), params!["definition-1", enough]),
    ];
    assert_eq!(asked.map(|(_, found)| found), [true; 3]);
    asked.map(|(steps, _)| steps)
}

#[test]
fn sagas_that_are_live_are_counted_no_further_than_people_care() {
    // Enough to reach the limit of each count on the smaller store.
    let some = 100_000;
    let many = scale::rows().max(2 * some);
    let (some, many) = (costs_of_counts(some), costs_of_counts(many));
    for (some, many) in some.into_iter().zip(many) {
        assert!(some > 0 && many * 2 <= some * 3, "{some} steps became {many}");
    }
}
