//! Equal seeds give equal logs on SQLite, PostgreSQL and the journal in memory.

use std::sync::Arc;

use backstitch::clock::SystemClock;
use backstitch::store::Store;
use backstitch::store::postgres::PostgresStore;
use backstitch::store::sqlite::SqliteStore;
use backstitch_testkit::postgres;
use backstitch_testkit::simulate::{self, Memory, Stored};
use tokio::runtime::Runtime;

const SEEDS: std::ops::Range<u64> = 0..150;

/// Runs every seed over this store and compares it with the journal in memory.
fn assert_equal_logs(runtime: &Runtime, store: &Arc<dyn Store>) {
    let mut compared = 0;
    for seed in SEEDS {
        let expected = simulate::run(seed, &mut Memory::default()).unwrap();
        let mut journal = Stored::new(store.clone(), runtime.handle().clone());
        let found = simulate::run(seed, &mut journal).unwrap();
        assert_eq!(expected.log, found.log, "seed {seed}");
        compared += found.log.len();
    }
    assert!(compared > 1_000, "only {compared} events were compared");
}

#[test]
fn sqlite_keeps_the_same_logs() {
    let runtime = Runtime::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let opened = SqliteStore::open(&folder.path().join("log.db"), Arc::new(SystemClock)).unwrap();
    let store: Arc<dyn Store> = Arc::new(opened);
    assert_equal_logs(&runtime, &store);
}

#[test]
fn postgres_keeps_the_same_logs() {
    let runtime = Runtime::new().unwrap();
    let address = runtime.block_on(postgres::fresh_database());
    let store: Arc<dyn Store> = Arc::new(runtime.block_on(PostgresStore::connect(&address)).unwrap());
    assert_equal_logs(&runtime, &store);
}
