//! The queries on a fresh database.

use backstitch::store::sqlite::allow_guarded_writes;
use backstitch_testkit::sql::{NamedStatement, statements};
use rusqlite::Connection;

use super::support::Place;

/// A fresh database, and every statement.
fn queries() -> (Place, Connection, Vec<NamedStatement>) {
    let place = Place::new();
    drop(place.open());
    let connection = place.beside();
    allow_guarded_writes(&connection).unwrap();
    let statements = statements("engine", "sqlite");
    assert!(statements.len() > 50, "the statements are somewhere else now");
    (place, connection, statements)
}

#[test]
fn every_query_can_be_prepared() {
    let (_place, connection, queries) = queries();
    for NamedStatement { name, text, .. } in queries {
        if let Err(why) = connection.prepare(&text) {
            panic!("{name}: {why}");
        }
    }
}

#[test]
fn no_query_reads_a_table_that_grows_from_end_to_end() {
    let (_place, connection, queries) = queries();
    // These tables contain only active, waiting or parked rows, versions of definitions, nodes, topics, a limited number of
    // messages, the leases of outside workers, the steps of a binary search, and the query's parameters.
    let small = [
        "SCAN CONSTANT ROW",
        "SCAN counted",
        "SCAN declared",
        "SCAN definitions",
        "SCAN found",
        "SCAN horizon",
        "SCAN json_each",
        "SCAN leased",
        "SCAN nodes",
        "SCAN parked_items",
        "SCAN pending",
        "SCAN result",
        // Only for a saga whose first event cannot be read: it alone tells the names of its attributes.
        "SCAN saga_attributes",
        "SCAN waiting",
        "jobs_due",
        "jobs_held",
        "jobs_leased",
        "sagas_adrift",
        "sagas_owned",
        "sagas_unowned_due",
        "outbox_due",
        "outbox_unsent",
        "saga_inbox",
        "(subquery-",
    ];
    for NamedStatement { name, text, .. } in queries {
        let whole: Vec<_> = plan(&connection, &text)
            .into_iter()
            .filter(|line| line.starts_with("SCAN") && !small.iter().any(|small| line.contains(small)))
            .collect();
        assert!(whole.is_empty(), "{name}: {whole:?}");
    }
}

#[test]
fn adoption_query_reads_only_adoptable_sagas() {
    let (_place, connection, queries) = queries();
    let candidates = queries.iter().find(|query| query.name == "ownership::candidates").unwrap();
    let searches: Vec<_> =
        plan(&connection, &candidates.text).into_iter().filter(|line| line.contains("sagas")).collect();
    assert_eq!(
        searches,
        [
            "SEARCH sagas USING COVERING INDEX sagas_owned (definition=? AND version=? AND owner>? AND owner<?)",
            "SEARCH sagas USING INDEX sagas_unowned_due (definition=? AND version=? AND wake_at>? AND wake_at<?)",
        ]
    );
}

fn plan(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(&format!("explain query plan {sql}")).unwrap();
    let mut rows = statement.raw_query();
    let mut plan = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        plan.push(row.get("detail").unwrap());
    }
    plan
}
