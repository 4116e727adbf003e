//! Stores for conformance cases.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use backstitch::clock::{Clock, ManualClock};
use backstitch::store::Store;
use backstitch::store::sqlite::SqliteStore;
use backstitch_kernel::Timestamp;
use tempfile::TempDir;

use crate::unguarded;

/// An empty store for one case.
#[async_trait]
pub trait Fixture: Send + Sync {
    /// The store.
    fn store(&self) -> Arc<dyn Store>;

    /// Closes and reopens the store, as a new process would. The caller drops all other handles first.
    async fn reopen(&self);

    /// The store's time.
    fn now(&self) -> Timestamp;

    /// Advances the store's time. A store with an unmovable clock may date back its contents instead, so cases compare
    /// times only with
    /// what the fixture reports afterwards.
    async fn advance(&self, by: Duration);
}

/// A store with direct access to its tables.
#[async_trait]
pub trait SqlFixture: Fixture {
    /// Runs a statement of both dialects; returns the number of changed rows, or the refusal.
    async fn execute(&self, statement: &str) -> Result<usize, String>;

    /// The same without the guards of a table, for rows that only corruption could leave.
    async fn execute_unguarded(&self, table: &str, statement: &str) -> Result<usize, String>;
}

pub(super) fn some_day() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(Timestamp::from_micros(1_767_225_600_000_000)))
}

/// The store in a file.
pub struct SqliteFixture {
    clock: Arc<ManualClock>,
    store: Mutex<Option<Arc<SqliteStore>>>,
    folder: TempDir,
}

impl SqliteFixture {
    /// An empty store.
    #[expect(clippy::unused_async, reason = "fixtures are opened alike, and others must wait for a server")]
    pub async fn open() -> Self {
        let clock = some_day();
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path(), &clock);
        Self { clock, store: Mutex::new(Some(store)), folder }
    }
}

fn open(folder: &Path, clock: &Arc<ManualClock>) -> Arc<SqliteStore> {
    Arc::new(SqliteStore::open(&folder.join("sagas.db"), clock.clone()).unwrap())
}

#[async_trait]
impl Fixture for SqliteFixture {
    fn store(&self) -> Arc<dyn Store> {
        self.store.lock().unwrap().clone().expect("the store is open except while it is reopened")
    }

    async fn reopen(&self) {
        let mut store = self.store.lock().unwrap();
        *store = None;
        *store = Some(open(self.folder.path(), &self.clock));
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
}

#[async_trait]
impl SqlFixture for SqliteFixture {
    async fn execute(&self, statement: &str) -> Result<usize, String> {
        let connection = rusqlite::Connection::open(self.folder.path().join("sagas.db")).unwrap();
        connection.execute(statement, []).map_err(|refused| refused.to_string())
    }

    async fn execute_unguarded(&self, table: &str, statement: &str) -> Result<usize, String> {
        let connection = rusqlite::Connection::open(self.folder.path().join("sagas.db")).unwrap();
        unguarded::on_sqlite(&connection, table, statement).map_err(|refused| refused.to_string())
    }
}
