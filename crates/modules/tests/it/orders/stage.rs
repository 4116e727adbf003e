//! Orders in a database of their own, and a rival who comes in between.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use backstitch::clock::SystemClock;
use backstitch::store::Store;
use backstitch::store::postgres::PostgresStore;
use backstitch::store::product::Database;
use backstitch::store::sqlite::SqliteStore;
use backstitch::store::watched::{Moment, Watch, Watched};
use backstitch::{Attempt, Caller, Engine, Options, Payload, StepError, store};
use backstitch_modules::orders::{self, Orders, Rollback, Timeouts};
use backstitch_testkit::postgres;
use futures::future::BoxFuture;

/// Orders, and their database, which goes last.
pub(crate) struct Stage {
    pub(crate) orders: Orders,
    pub(crate) rival: Arc<Watched<Rival>>,
    _place: Option<tempfile::TempDir>,
}

impl Stage {
    /// On each database; nobody has said yet where the services are.
    pub(crate) async fn each() -> [Self; 2] {
        Self::each_calling(Arc::new(Willing)).await
    }

    /// The same, with these services.
    pub(crate) async fn each_calling(caller: Arc<dyn Caller>) -> [Self; 2] {
        let folder = tempfile::tempdir().unwrap();
        let file = SqliteStore::open_with(
            &folder.path().join("orders.db"),
            Arc::new(SystemClock),
            &[&orders::SCHEMA],
        );
        let address = postgres::migrated_database(&[&orders::SCHEMA]).await;
        let server = PostgresStore::connect_with(&address, &[&orders::SCHEMA]).await;
        [
            Self::on(Arc::new(file.unwrap()), Some(folder), caller.clone()).await,
            Self::on(Arc::new(server.unwrap()), None, caller).await,
        ]
    }

    async fn on(store: Arc<dyn Store>, place: Option<tempfile::TempDir>, caller: Arc<dyn Caller>) -> Self {
        let rival = Arc::new(Watched::new(store, Rival::default()));
        let options = Options { caller: Some(caller), ..Options::default() };
        let engine = Engine::on_store(rival.clone(), options).await.unwrap();
        let orders = Orders::open(engine, None, Timeouts::default(), Rollback::default()).await.unwrap();
        Self { orders, rival, _place: place }
    }

    /// Orders on the same database that know nothing of the first ones' changes, as on another node.
    pub(crate) async fn another(orders: &Orders) -> Orders {
        let engine = orders.engine().clone();
        Orders::open(engine, None, Timeouts::default(), Rollback::default()).await.unwrap()
    }

    /// From now on somebody does this before a version is applied, so many times.
    pub(crate) fn interfere(
        &self,
        times: usize,
        what: impl Fn(Orders) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) {
        self.interfere_before(Step::Applying, times, what);
    }

    /// From now on somebody does this before a version is staged or applied, so many times.
    pub(crate) fn interfere_before(
        &self,
        step: Step,
        times: usize,
        what: impl Fn(Orders) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) {
        let orders = self.orders.clone();
        self.rival.left.store(times, Ordering::SeqCst);
        assert!(self.rival.what.set((step, Box::new(move || what(orders.clone())))).is_ok());
    }
}

/// The texts that a statement gives in its first column.
pub(crate) async fn texts(orders: &Orders, sql: &'static str) -> Vec<String> {
    match orders.engine().database() {
        Database::Sqlite(file) => {
            let read = move |connection: &rusqlite::Connection| {
                let mut statement = connection.prepare(sql)?;
                let rows = statement.query_map([], |row| row.get(0))?;
                rows.collect()
            };
            file.read_product(read).await.unwrap()
        }
        Database::Postgres(server) => {
            let rows = server.read_product(sql, &[]).await.unwrap();
            rows.iter().map(|row| row.get(0)).collect()
        }
    }
}

/// What becomes of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Staging,
    Applying,
}

type Interference = Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// Does something each time a version is about to be staged or applied.
#[derive(Default)]
pub(crate) struct Rival {
    what: OnceLock<(Step, Interference)>,
    left: AtomicUsize,
}

#[async_trait]
impl Watch for Rival {
    async fn at(&self, moment: Moment<'_>) -> Result<(), store::Error> {
        let step = match moment {
            Moment::BeforeStaging(_) => Step::Staging,
            Moment::BeforeApplying(_) => Step::Applying,
            _ => return Ok(()),
        };
        if let Some((_, what)) = self.what.get().filter(|(meant, _)| *meant == step) {
            let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            if left.is_ok() {
                what().await;
            }
        }
        Ok(())
    }
}

/// Services that do whatever they are asked.
pub(crate) struct Willing;

#[async_trait]
impl Caller for Willing {
    async fn call(&self, _: &Payload, _: &Attempt<'_>) -> Result<Payload, StepError> {
        Ok(Payload::null())
    }
}
