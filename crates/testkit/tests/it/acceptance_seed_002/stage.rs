//! Every store there is, one after the other, for tests of what all of them do alike.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstitch::clock::{Clock, SystemClock};
use backstitch::store::sqlite::SqliteStore;
use backstitch::{
    Context, Engine, Options, Recorded, Retry, Run, Saga, SagaState, Step, StepError, StepResult, Timestamp,
    Undo,
};
use backstitch_testkit::postgres;
use futures::StreamExt;
use serde_json::Value;

/// Long enough for anything here on a busy machine.
const PATIENCE: Duration = backstitch_testkit::PATIENCE;

/// A store of one kind, empty at first, that engines can be opened on one after the other.
pub(crate) struct Stage {
    place: Place,
    pub(crate) clock: Arc<MovedClock>,
}

enum Place {
    Memory(Arc<SqliteStore>),
    Sqlite(tempfile::TempDir),
    Postgres(String),
}

/// Plays a scene on each kind of store.
pub(crate) async fn on_every_store(scene: impl AsyncFn(Stage)) {
    let clock = Arc::new(MovedClock::default());
    let memory = Arc::new(SqliteStore::in_memory(clock.clone()).unwrap());
    eprintln!("on memory");
    scene(Stage { place: Place::Memory(memory), clock }).await;
    eprintln!("on SQLite");
    let file = Place::Sqlite(tempfile::tempdir().unwrap());
    scene(Stage { place: file, clock: Arc::default() }).await;
    eprintln!("on PostgreSQL");
    let database = Place::Postgres(postgres::fresh_database().await);
    scene(Stage { place: database, clock: Arc::default() }).await;
}

impl Stage {
    pub(crate) async fn open(&self) -> Engine {
        self.open_with(|_| {}).await
    }

    pub(crate) async fn open_with(&self, change: impl FnOnce(&mut Options)) -> Engine {
        let mut options = Options { clock: self.clock.clone(), ..Options::default() };
        change(&mut options);
        let opened = match &self.place {
            Place::Memory(store) => Engine::on_store(store.clone(), options).await,
            Place::Sqlite(folder) => {
                let address = format!("sqlite:{}", folder.path().join("sagas.db").display());
                Engine::open_with(&address, options).await
            }
            Place::Postgres(address) => Engine::open_with(address, options).await,
        };
        opened.unwrap()
    }

    pub(crate) async fn engine(&self, saga: Saga) -> Engine {
        let engine = self.open().await;
        engine.register(saga).unwrap();
        engine
    }

    /// Runs one saga to its end on an engine of its own.
    pub(crate) async fn run(&self, saga: Saga) -> SagaState {
        let name = saga.definition().name().to_owned();
        let engine = self.engine(saga).await;
        let ended = execute(&engine, &name).await;
        engine.shutdown().await.unwrap();
        ended
    }
}

/// The machine's clock, moved on as far as a test wants.
pub(crate) struct MovedClock {
    made: tokio::time::Instant,
    /// In microseconds.
    moved: AtomicU64,
}

impl Default for MovedClock {
    fn default() -> Self {
        Self { made: tokio::time::Instant::now(), moved: AtomicU64::new(0) }
    }
}

impl MovedClock {
    pub(crate) fn advance(&self, by: Duration) {
        self.moved.fetch_add(u64::try_from(by.as_micros()).unwrap(), Ordering::SeqCst);
    }

    fn moved(&self) -> Duration {
        Duration::from_micros(self.moved.load(Ordering::SeqCst))
    }
}

impl Clock for MovedClock {
    fn now(&self) -> Timestamp {
        SystemClock.now().plus(self.moved())
    }

    fn monotonic(&self) -> Option<Duration> {
        Some(self.made.elapsed() + self.moved())
    }
}

/// What happened, in order.
#[derive(Clone, Default)]
pub(crate) struct Trace(Arc<Mutex<Vec<String>>>);

impl Trace {
    pub(crate) fn say(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    pub(crate) fn said(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// Waits until this was said.
    pub(crate) async fn wait_for(&self, what: &str) {
        eventually(what, async || self.said().iter().any(|said| said == what)).await;
    }
}

pub(crate) const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// A step that notes what it does, and is undone likewise.
pub(crate) fn noting(id: &'static str, trace: &Trace) -> Step<Value, String> {
    let (done, undone) = (trace.clone(), trace.clone());
    Step::new(id, move |_: Context<Value>| {
        done.say(format!("do {id}"));
        async move { Ok(format!("{id} done")) }
    })
    .compensate(move |_, undo: Undo<String>| {
        undone.say(format!("undo {id} {}", undo.result.as_deref().unwrap_or("in doubt")));
        async { Ok(()) }
    })
    .retry(Retry::none())
}

/// A step that refuses.
pub(crate) fn refusing(id: &'static str, trace: &Trace) -> Step<Value, String> {
    let done = trace.clone();
    Step::new(id, move |_: Context<Value>| {
        done.say(format!("do {id}"));
        async { Err(StepError::refused("no").with_code("NOPE").into()) }
    })
}

/// A step that begins and never ends.
pub(crate) fn hanging(id: &'static str, trace: &Trace) -> Step<Value, String> {
    let done = trace.clone();
    Step::new(id, move |_: Context<Value>| {
        done.say(format!("do {id}"));
        std::future::pending::<StepResult<String>>()
    })
}

/// A step that cannot be undone.
pub(crate) fn stubborn(id: &'static str, trace: &Trace) -> Step<Value, String> {
    let undone = trace.clone();
    let step = noting(id, trace).compensate(move |_, _: Undo<String>| {
        undone.say(format!("undo {id} fails"));
        async { Err::<(), _>(StepError::not_done("it stays").into()) }
    });
    step.compensation_retry(Retry::fixed(1, ms(1)))
}

pub(crate) async fn start(engine: &Engine, saga: &str) -> Run {
    engine.start(saga, &Value::Null).await.unwrap()
}

pub(crate) async fn execute(engine: &Engine, saga: &str) -> SagaState {
    ended(start(engine, saga).await).await
}

pub(crate) async fn ended(run: Run) -> SagaState {
    tokio::time::timeout(PATIENCE, run.outcome()).await.unwrap().unwrap()
}

pub(crate) async fn log(run: &Run) -> Vec<Recorded> {
    let log = run.events().map(Result::unwrap).collect();
    tokio::time::timeout(PATIENCE, log).await.unwrap()
}

pub(crate) fn names(log: &[Recorded]) -> Vec<&'static str> {
    log.iter().map(|recorded| recorded.event.name()).collect()
}

/// Waits until something holds; for what a store alone can tell.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begun = tokio::time::Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < PATIENCE, "never so: {what}");
        tokio::time::sleep(ms(2)).await;
    }
}
