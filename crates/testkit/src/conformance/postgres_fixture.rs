//! The store in a `PostgreSQL` database with a manual clock.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use backstitch::clock::{Clock as _, ManualClock};
use backstitch::store::Store;
use backstitch::store::postgres::PostgresStore;
use backstitch_kernel::Timestamp;
use tokio_postgres::{Client, NoTls};

use super::fixture::{Fixture, SqlFixture, some_day};
use crate::postgres::fresh_database;

/// Replaces the schema's clock function, which returns the server's time.
const CLOCK: &str = "
    create table backstitch.test_clock (micros bigint not null);
    insert into backstitch.test_clock values (0);
    create or replace function backstitch.clock() returns timestamptz language sql stable as $$
        select timestamptz 'epoch' + micros * interval '1 microsecond' from backstitch.test_clock
    $$;
    set search_path = backstitch;
";

/// The store in a database of its own.
pub struct PostgresFixture {
    address: String,
    clock: Arc<ManualClock>,
    session: Client,
    store: Mutex<Option<Arc<PostgresStore>>>,
}

impl PostgresFixture {
    /// An empty store.
    pub async fn open() -> Self {
        let address = fresh_database().await;
        let store = PostgresStore::connect(&address).await.unwrap();
        let session = connected(&address).await;
        session.batch_execute(CLOCK).await.unwrap();
        let fixture = Self { address, clock: some_day(), session, store: Mutex::new(Some(Arc::new(store))) };
        fixture.show_time().await;
        fixture
    }

    /// A connection besides the store's.
    pub async fn beside(&self) -> Client {
        connected(&self.address).await
    }

    async fn show_time(&self) {
        let now = self.clock.now().as_micros();
        self.session.execute("update test_clock set micros = $1", &[&now]).await.unwrap();
    }
}

async fn connected(address: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

#[async_trait]
impl Fixture for PostgresFixture {
    fn store(&self) -> Arc<dyn Store> {
        self.store.lock().unwrap().clone().expect("the store is open except while it is reopened")
    }

    async fn reopen(&self) {
        *self.store.lock().unwrap() = None;
        let store = PostgresStore::connect(&self.address).await.unwrap();
        *self.store.lock().unwrap() = Some(Arc::new(store));
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
        self.show_time().await;
    }
}

#[async_trait]
impl SqlFixture for PostgresFixture {
    async fn execute(&self, statement: &str) -> Result<usize, String> {
        let changed = self.session.execute(statement, &[]).await;
        let refused = |why: tokio_postgres::Error| {
            why.as_db_error().map_or_else(|| why.to_string(), |said| said.message().to_owned())
        };
        changed.map(|rows| usize::try_from(rows).unwrap_or(usize::MAX)).map_err(refused)
    }

    async fn execute_unguarded(&self, table: &str, statement: &str) -> Result<usize, String> {
        self.execute(&format!("alter table {table} disable trigger user")).await?;
        let changed = self.execute(statement).await;
        self.execute(&format!("alter table {table} enable trigger user")).await?;
        changed
    }
}
