//! The queries, on a fresh database.

use std::fs;
use std::path::{Path, PathBuf};

use backstitch::store::sqlite::allow_guarded_writes;
use rusqlite::Connection;

use super::support::Place;

/// A fresh database, and every query with its name.
fn queries() -> (Place, Connection, Vec<(String, String)>) {
    let place = Place::new();
    drop(place.open());
    let connection = place.beside();
    allow_guarded_writes(&connection).unwrap();
    let engine = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine");
    let mut files: Vec<PathBuf> = ["queries/sqlite", "src/store/sqlite", "src/jobs/sqlite"]
        .iter()
        .flat_map(|folder| fs::read_dir(engine.join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sql"))
        .collect();
    files.sort();
    assert!(files.len() > 20, "the queries are somewhere else now");
    let named = files.iter().map(|file| {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        (name, fs::read_to_string(file).unwrap())
    });
    let named = named.collect();
    (place, connection, named)
}

#[test]
fn every_query_can_be_prepared() {
    let (_place, connection, queries) = queries();
    for (name, sql) in queries {
        if let Err(why) = connection.prepare(&sql) {
            panic!("{name}: {why}");
        }
    }
}

#[test]
fn no_query_reads_a_table_that_grows_from_end_to_end() {
    let (_place, connection, queries) = queries();
    // These hold only what is active, waits or is parked, never what is over, the versions of definitions, nodes, topics, a limited
    // number of messages, the leases of outside workers, the steps of a search by halving, and what the query is asked with.
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
    for (name, sql) in queries {
        let whole: Vec<_> = plan(&connection, &sql)
            .into_iter()
            .filter(|line| line.starts_with("SCAN") && !small.iter().any(|small| line.contains(small)))
            .collect();
        assert!(whole.is_empty(), "{name}: {whole:?}");
    }
}

#[test]
fn adoption_goes_straight_to_what_can_be_adopted() {
    let (_place, connection, queries) = queries();
    let (_, sql) = queries.iter().find(|(name, _)| name == "adopt_candidates").unwrap();
    let searches: Vec<_> = plan(&connection, sql).into_iter().filter(|line| line.contains("sagas")).collect();
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
