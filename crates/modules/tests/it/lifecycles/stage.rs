//! Lifecycles in a database of their own, on both kinds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use backstitch::clock::{Clock, SystemClock};
use backstitch::kernel::lifecycle::audit;
use backstitch::outbox::Routes;
use backstitch::store::Store;
use backstitch::store::postgres::PostgresStore;
use backstitch::store::sqlite::{SqliteStore, allow_guarded_writes};
use backstitch::{Engine, Options};
use backstitch_modules::lifecycles::sites::{self, Endpoints};
use backstitch_modules::lifecycles::{
    self, Calls, Draft, Error, Given, Lifecycles, Moved, Recorded, Refused, Settings, Standing,
};
use backstitch_testkit::{obstacle, postgres, reopen};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};

use crate::lifecycles::services::Services;
use crate::orders::stage::Willing;

pub(crate) const SITES: &str = sites::MACHINE;
/// Short enough to wait for its expiry.
const LEASE: Duration = Duration::from_millis(800);

/// Where the tables are.
pub(crate) enum Place {
    Sqlite(tempfile::TempDir),
    Postgres { address: String, session: Client },
}

/// Lifecycles, and their database, which goes last.
pub(crate) struct Stage {
    pub(crate) lifecycles: Lifecycles,
    pub(crate) engine: Engine,
    pub(crate) services: Arc<Services>,
    pub(crate) place: Place,
    lease: Duration,
}

/// A process that performs actions, until it is stopped.
pub(crate) struct Driving {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Driving {
    /// Lets what is under way end.
    pub(crate) async fn stop(self) {
        let _ = self.stop.send(());
        self.task.await.unwrap();
    }

    /// As if it were killed: nothing is given back.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

impl Stage {
    /// On each database.
    pub(crate) async fn each() -> [Self; 2] {
        [Self::sqlite().await, Self::postgres().await]
    }

    /// The same with somewhere for messages to go.
    pub(crate) async fn each_sending(routes: &Routes) -> [Self; 2] {
        let folder = tempfile::tempdir().unwrap();
        let file =
            Self::sending(open_file(&folder).await, Place::Sqlite(folder), LEASE, routes.clone()).await;
        let address = postgres::migrated_database(&[&lifecycles::SCHEMA]).await;
        let store = PostgresStore::connect_with(&address, &[&lifecycles::SCHEMA]).await.unwrap();
        let place = Place::Postgres { session: session(&address).await, address };
        [file, Self::sending(Arc::new(store), place, LEASE, routes.clone()).await]
    }

    pub(crate) async fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = open_file(&folder).await;
        Self::on(store, Place::Sqlite(folder), LEASE).await
    }

    pub(crate) async fn postgres() -> Self {
        Self::postgres_with_lease(LEASE).await
    }

    pub(crate) async fn postgres_with_lease(lease: Duration) -> Self {
        let address = postgres::migrated_database(&[&lifecycles::SCHEMA]).await;
        let store = PostgresStore::connect_with(&address, &[&lifecycles::SCHEMA]).await.unwrap();
        let session = session(&address).await;
        Self::on(Arc::new(store), Place::Postgres { address, session }, lease).await
    }

    async fn on(store: Arc<dyn Store>, place: Place, lease: Duration) -> Self {
        Self::sending(store, place, lease, Routes::none()).await
    }

    async fn sending(store: Arc<dyn Store>, place: Place, lease: Duration, routes: Routes) -> Self {
        let services = Arc::new(Services::default());
        let options = Options { routes, caller: Some(Arc::new(Willing)), ..Options::default() };
        let engine = Engine::on_store(store, options).await.unwrap();
        let lifecycles = lifecycles_with_lease(&engine, &services, lease);
        Self { lifecycles, engine, services, place, lease }
    }

    /// As after a crash: nothing in memory is left, and the next process takes over. What the services have seen stays.
    pub(crate) async fn crash(self) -> Self {
        let Self { lifecycles, engine, services, place, lease } = self;
        let store = Arc::downgrade(engine.store());
        drop(lifecycles);
        engine.shutdown().await.unwrap();
        while store.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
        let store: Arc<dyn Store> = match &place {
            Place::Sqlite(folder) => open_file(folder).await,
            Place::Postgres { address, .. } => {
                Arc::new(PostgresStore::connect_with(address, &[&lifecycles::SCHEMA]).await.unwrap())
            }
        };
        let engine = self::engine(store).await;
        let lifecycles = lifecycles_with_lease(&engine, &services, lease);
        Self { lifecycles, engine, services, place, lease }
    }

    /// Another process on the same database.
    pub(crate) async fn another(&self) -> (Engine, Lifecycles) {
        self.another_by(Arc::new(SystemClock)).await
    }

    /// The same on a machine with this clock.
    pub(crate) async fn another_by(&self, clock: Arc<dyn Clock>) -> (Engine, Lifecycles) {
        let Place::Postgres { address, .. } = &self.place else { panic!("a file has one process") };
        let store = PostgresStore::connect_with(address, &[&lifecycles::SCHEMA]).await.unwrap();
        let engine = engine_by(Arc::new(store), clock).await;
        let lifecycles = lifecycles_with_lease(&engine, &self.services, self.lease);
        (engine, lifecycles)
    }

    /// Sites that are driven from outside.
    pub(crate) async fn provide_sites(&self) {
        self.lifecycles.provide_sites(&Endpoints::default()).await.unwrap();
    }

    /// Sites whose actions are performed by whoever drives.
    pub(crate) async fn provide_driven_sites(&self) {
        self.lifecycles.provide_sites(&endpoints()).await.unwrap();
    }

    pub(crate) async fn declare(&self, draft: Draft) {
        let name = draft.name.clone();
        self.lifecycles.machines.declare(draft).await.unwrap();
        self.lifecycles.machines.apply(&name, None).await.unwrap();
    }

    pub(crate) fn drive(&self) -> Driving {
        drive(&self.lifecycles)
    }

    pub(crate) async fn start(&self, key: &str) -> Moved {
        self.lifecycles.start(SITES, key, Given::default()).await.unwrap()
    }

    pub(crate) async fn go(&self, key: &str, states: &[&str]) {
        for state in states {
            self.lifecycles.transition(SITES, key, state, None).await.unwrap();
        }
    }

    pub(crate) async fn get(&self, key: &str) -> Standing {
        self.lifecycles.get(SITES, key).await.unwrap()
    }

    pub(crate) async fn state(&self, key: &str) -> String {
        self.get(key).await.instance.state.to_string()
    }

    pub(crate) async fn log(&self, key: &str) -> Vec<Recorded> {
        let id = self.get(key).await.id;
        self.lifecycles.log(id, 0, 1000).await.unwrap()
    }

    /// Waits until one is where it is expected.
    pub(crate) async fn until(&self, key: &str, state: &str) {
        let began = Instant::now();
        while began.elapsed() < backstitch_testkit::PATIENCE {
            if self.lifecycles.get(SITES, key).await.is_ok_and(|it| &*it.instance.state == state) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{key} is in {:?} and not in {state}", self.log(key).await.last());
    }

    /// Nothing that must never happen has happened to this one, and its row is the fold of its log.
    pub(crate) async fn audit(&self, machine: &str, key: &str) {
        let standing = self.lifecycles.get(machine, key).await.unwrap();
        let machine = self.lifecycles.machines.machine(machine, standing.version).await.unwrap();
        let log = self.lifecycles.log(standing.id, 0, 10_000).await.unwrap();
        assert_eq!(audit(&machine, &log), []);
        let folded = lifecycles::Instance::of(&machine, &log).unwrap();
        let row = lifecycles::Instance {
            // Only the row knows who has it, and for how long.
            token: folded.token,
            due_at: folded.due_at,
            ..standing.instance
        };
        assert_eq!(row, folded);
    }

    /// Runs a statement that both dialects understand, with all rights and as Backstitch itself would; how many rows it
    /// changed, or why it was refused.
    pub(crate) async fn execute(&self, statement: &str) -> Result<u64, String> {
        match &self.place {
            Place::Sqlite(folder) => {
                let connection = rusqlite::Connection::open(folder.path().join("lives.db")).unwrap();
                connection.busy_timeout(backstitch_testkit::PATIENCE).unwrap();
                allow_guarded_writes(&connection).unwrap();
                connection.execute(statement, []).map(|rows| rows as u64).map_err(|why| why.to_string())
            }
            Place::Postgres { session, .. } => {
                let refused = |why: tokio_postgres::Error| why.as_db_error().unwrap().message().to_owned();
                session.execute(statement, &[]).await.map_err(refused)
            }
        }
    }

    /// Has the database reject an event of the rows that meet a condition.
    pub(crate) async fn obstruct(&self, table: &str, event: &str, condition: &str) {
        let sql = match &self.place {
            Place::Sqlite(_) => obstacle::on_sqlite(table, event, condition),
            Place::Postgres { .. } => obstacle::on_postgres(table, event, condition),
        };
        self.execute(&sql).await.unwrap();
    }

    pub(crate) async fn clear(&self, table: &str) {
        let sql = match &self.place {
            Place::Sqlite(_) => obstacle::gone_on_sqlite(table),
            Place::Postgres { .. } => obstacle::gone_on_postgres(table),
        };
        self.execute(&sql).await.unwrap();
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

/// Why a call was refused.
pub(crate) fn refusal(outcome: Result<Moved, Error>) -> Refused {
    match outcome {
        Err(Error::Refused { why, .. }) => why,
        other => panic!("it was not refused: {other:?}"),
    }
}

pub(crate) fn drive(lifecycles: &Lifecycles) -> Driving {
    let (stop, stopped) = oneshot::channel();
    let lifecycles = lifecycles.clone();
    let closing = async move {
        let _ = stopped.await;
    };
    Driving { stop, task: tokio::spawn(async move { lifecycles.run(closing).await }) }
}

pub(crate) fn endpoints() -> Endpoints {
    let url = |path: &str| Some(format!("http://127.0.0.1:1/{path}"));
    Endpoints {
        resolve_source: url("resolve"),
        create_project: url("project"),
        create_hook: url("hook"),
        timeout: Some(Duration::from_secs(30)),
        retry: Some(backstitch::Retry::fixed(2, Duration::from_millis(20))),
        pause_expires: None,
    }
}

pub(crate) fn lifecycles(engine: &Engine, services: &Arc<Services>) -> Lifecycles {
    lifecycles_with_lease(engine, services, LEASE)
}

fn lifecycles_with_lease(engine: &Engine, services: &Arc<Services>, lease: Duration) -> Lifecycles {
    open(engine, services, &Settings { lease, ..Settings::default() })
}

/// The same with room for so many actions.
pub(crate) fn lifecycles_at_once(
    engine: &Engine,
    services: &Arc<Services>,
    concurrency: usize,
) -> Lifecycles {
    open(engine, services, &Settings { lease: LEASE, concurrency })
}

fn open(engine: &Engine, services: &Arc<Services>, settings: &Settings) -> Lifecycles {
    let calls: Arc<dyn Calls> = services.clone();
    Lifecycles::open(engine, calls, settings).unwrap()
}

async fn engine(store: Arc<dyn Store>) -> Engine {
    engine_by(store, Arc::new(SystemClock)).await
}

async fn engine_by(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Engine {
    // Messages stay where they are, to be looked at.
    let options = Options { routes: Routes::none(), clock, ..Options::default() };
    Engine::on_store(store, options).await.unwrap()
}

async fn session(address: &str) -> Client {
    let (session, connection) = tokio_postgres::connect(address, NoTls).await.unwrap();
    tokio::spawn(connection);
    session.batch_execute("set search_path = backstitch").await.unwrap();
    session
}

async fn open_file(folder: &tempfile::TempDir) -> Arc<dyn Store> {
    let path = folder.path().join("lives.db");
    let open = async || Ok(SqliteStore::open_with(&path, Arc::new(SystemClock), &[&lifecycles::SCHEMA])?);
    Arc::new(reopen(open).await)
}
