//! Processes that take requests, in a database of their own, on both kinds.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use backstitch::clock::SystemClock;
use backstitch::outbox::Routes;
use backstitch::store::Store;
use backstitch::store::postgres::PostgresStore;
use backstitch::store::sqlite::SqliteStore;
use backstitch::{Engine, Options, Retry};
use backstitch_modules::lifecycles::nats::{Config, Consumer};
use backstitch_modules::lifecycles::sites::{self, Endpoints};
use backstitch_modules::lifecycles::{self, Calls, Draft, Lifecycles, Settings, Standing};
use backstitch_testkit::{postgres, reopen};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_postgres::{Client, NoTls};

use crate::lifecycle_nats::services::Services;

pub(crate) const SITES: &str = sites::MACHINE;
/// Longer than anything that is expected to happen takes.
const PATIENT: Duration = Duration::from_secs(60);
/// A lease that a test can wait for.
const LEASE: Duration = Duration::from_millis(1500);

/// A database, and the services that outlive every process.
pub(crate) struct Stage {
    pub(crate) services: Arc<Services>,
    place: Place,
}

enum Place {
    Sqlite(tempfile::TempDir),
    Postgres { address: String, session: Client },
}

/// A process.
pub(crate) struct Node {
    pub(crate) lifecycles: Lifecycles,
    engine: Engine,
    tasks: JoinSet<()>,
    stop: watch::Sender<bool>,
}

impl Stage {
    /// On each database.
    pub(crate) async fn each() -> [Self; 2] {
        [Self::sqlite(), Self::postgres().await]
    }

    pub(crate) fn sqlite() -> Self {
        Self::at(Place::Sqlite(tempfile::tempdir().unwrap()))
    }

    pub(crate) async fn postgres() -> Self {
        let address = postgres::migrated_database(&[&lifecycles::SCHEMA]).await;
        let (session, connection) = tokio_postgres::connect(&address, NoTls).await.unwrap();
        tokio::spawn(connection);
        session.batch_execute("set search_path = backstitch").await.unwrap();
        Self::at(Place::Postgres { address, session })
    }

    fn at(place: Place) -> Self {
        Self { services: Arc::default(), place }
    }

    /// A process that takes nothing and performs nothing yet.
    pub(crate) async fn node(&self) -> Node {
        self.node_with(LEASE).await
    }

    pub(crate) async fn node_with(&self, lease: Duration) -> Node {
        // Messages stay where they are, to be looked at.
        let options = Options { routes: Routes::none(), ..Options::default() };
        let engine = Engine::on_store(self.store().await, options).await.unwrap();
        let calls: Arc<dyn Calls> = self.services.clone();
        let lifecycles =
            Lifecycles::open(&engine, calls, &Settings { lease, ..Settings::default() }).unwrap();
        Node { lifecycles, engine, tasks: JoinSet::new(), stop: watch::Sender::default() }
    }

    /// A process that provisions sites as it is asked.
    pub(crate) async fn provisioner(&self, config: Config) -> Node {
        let mut node = self.node().await;
        node.provide_sites().await;
        node.drive();
        node.consume(config);
        node
    }

    async fn store(&self) -> Arc<dyn Store> {
        match &self.place {
            Place::Sqlite(folder) => {
                let path = folder.path().join("lives.db");
                let open = async || {
                    Ok(SqliteStore::open_with(&path, Arc::new(SystemClock), &[&lifecycles::SCHEMA])?)
                };
                Arc::new(reopen(open).await)
            }
            Place::Postgres { address, .. } => {
                Arc::new(PostgresStore::connect_with(address, &[&lifecycles::SCHEMA]).await.unwrap())
            }
        }
    }

    /// Lets nobody write lifecycles until what this gives is dropped.
    pub(crate) async fn hold_up(&self) -> Box<dyn Any> {
        match &self.place {
            Place::Sqlite(folder) => {
                let connection = rusqlite::Connection::open(folder.path().join("lives.db")).unwrap();
                connection.busy_timeout(backstitch_testkit::PATIENCE).unwrap();
                connection.execute_batch("begin immediate").unwrap();
                Box::new(connection)
            }
            Place::Postgres { address, .. } => {
                let (session, connection) = tokio_postgres::connect(address, NoTls).await.unwrap();
                tokio::spawn(connection);
                session.batch_execute("begin; lock table backstitch.lifecycles").await.unwrap();
                Box::new(session)
            }
        }
    }

    /// Runs a statement that both dialects understand.
    pub(crate) async fn execute(&self, statement: &str) {
        match &self.place {
            Place::Sqlite(folder) => {
                let connection = rusqlite::Connection::open(folder.path().join("lives.db")).unwrap();
                connection.busy_timeout(backstitch_testkit::PATIENCE).unwrap();
                connection.execute_batch(statement).unwrap();
            }
            Place::Postgres { session, .. } => session.batch_execute(statement).await.unwrap(),
        }
    }

    /// The texts that a statement gives in its first column.
    pub(crate) async fn texts(&self, statement: &str) -> Vec<String> {
        match &self.place {
            Place::Sqlite(folder) => {
                let connection = rusqlite::Connection::open(folder.path().join("lives.db")).unwrap();
                let mut statement = connection.prepare(statement).unwrap();
                let rows = statement.query_map([], |row| row.get(0)).unwrap();
                rows.collect::<rusqlite::Result<_>>().unwrap()
            }
            Place::Postgres { session, .. } => {
                session.query(statement, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
            }
        }
    }
}

impl Node {
    /// Sites whose actions are performed by whoever drives.
    pub(crate) async fn provide_sites(&self) {
        let url = |path: &str| Some(format!("http://127.0.0.1:1/{path}"));
        let endpoints = Endpoints {
            resolve_source: url("resolve"),
            create_project: url("project"),
            create_hook: url("hook"),
            timeout: Some(PATIENT),
            retry: Some(Retry::fixed(2, Duration::from_millis(20))),
            ..Endpoints::default()
        };
        self.lifecycles.provide_sites(&endpoints).await.unwrap();
    }

    pub(crate) async fn declare(&self, draft: Draft) {
        let name = draft.name.clone();
        self.lifecycles.machines.declare(draft).await.unwrap();
        match self.lifecycles.machines.apply(&name, None).await {
            // A process before has done so.
            Ok(_) | Err(lifecycles::Error::NothingStaged(_)) => {}
            Err(why) => panic!("{why}"),
        }
    }

    pub(crate) fn drive(&mut self) {
        let (lifecycles, mut stopped) = (self.lifecycles.clone(), self.stop.subscribe());
        self.tasks.spawn(async move {
            lifecycles.run(async { drop(stopped.wait_for(|stop| *stop).await) }).await;
        });
    }

    pub(crate) fn consume(&mut self, config: Config) {
        let consumer = Consumer::new(&self.lifecycles, config).unwrap();
        let mut stopped = self.stop.subscribe();
        self.tasks.spawn(async move {
            consumer.run(async { drop(stopped.wait_for(|stop| *stop).await) }).await;
        });
    }

    pub(crate) async fn get(&self, machine: &str, key: &str) -> Option<Standing> {
        self.lifecycles.get(machine, key).await.ok()
    }

    pub(crate) async fn until(&self, machine: &str, key: &str, state: &str) -> Standing {
        eventually(&format!("{key} is in {state}"), async || {
            self.get(machine, key).await.is_some_and(|it| &*it.instance.state == state)
        })
        .await;
        self.get(machine, key).await.unwrap()
    }

    /// Ends it as it is asked to.
    pub(crate) async fn stop(mut self) {
        self.stop.send_replace(true);
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
        self.close().await;
    }

    /// As if it were killed: nothing is given back, and nobody is told.
    pub(crate) async fn kill(mut self) {
        self.tasks.abort_all();
        while self.tasks.join_next().await.is_some() {}
        self.close().await;
    }

    async fn close(self) {
        let Self { lifecycles, engine, .. } = self;
        let store = Arc::downgrade(engine.store());
        drop(lifecycles);
        engine.shutdown().await.unwrap();
        while store.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// Looks until it is so.
pub(crate) async fn eventually(what: &str, is_so: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + PATIENT;
    while !is_so().await {
        assert!(Instant::now() < deadline, "it is never so: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Looks again and again, and it is always so.
pub(crate) async fn always(how_long: Duration, what: &str, is_so: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + how_long;
    while Instant::now() < deadline {
        assert!(is_so().await, "it is not always so: {what}");
        sleep(Duration::from_millis(20)).await;
    }
}
