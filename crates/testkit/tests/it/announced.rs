//! Publishing of saga events: each published event has its message and no message lacks its event, whatever caused the
//! event, on
//! every store.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use backstitch::clock::SystemClock;
use backstitch::outbox::Routes;
use backstitch::sink::{Message, Receipt, Sink, Undelivered};
use backstitch::store::outbox::{Listing, SAGAS};
use backstitch::store::sqlite::SqliteStore;
use backstitch::{
    Announced, Context, Cursor, Engine, EventView, Filter, Options, Resolution, Retry, Saga, SagaId, Status,
    Step, StepError, StepResult, Undo,
};
use backstitch_testkit::postgres;
use rusqlite::TransactionBehavior;
use serde_json::Value;
use tokio_postgres::NoTls;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = backstitch_testkit::PATIENCE;
/// A limit above every count here.
const ALL: usize = 1000;

/// Keeps delivered messages.
#[derive(Clone, Default)]
struct Post(Arc<Mutex<Vec<Message>>>);

#[async_trait]
impl Sink for Post {
    async fn send(&self, message: &Message) -> Result<Receipt, Undelivered> {
        self.0.lock().unwrap().push(message.clone());
        Ok(Receipt::default())
    }
}

enum Place {
    Memory(Arc<SqliteStore>),
    Sqlite(tempfile::TempDir),
    Postgres(String),
}

impl Place {
    fn file(folder: &tempfile::TempDir) -> std::path::PathBuf {
        folder.path().join("sagas.db")
    }

    async fn open(&self, post: &Post, events: &[&str]) -> Engine {
        let options = Options {
            routes: Routes::all_to(Arc::new(post.clone())),
            announced: Announced::matching(events).unwrap(),
            tick: Duration::from_millis(20),
            grace: Duration::from_millis(200),
            lease: Duration::from_secs(2),
            send_timeout: Duration::from_secs(2),
            ..Options::default()
        };
        let engine = match self {
            Self::Memory(store) => Engine::on_store(store.clone(), options).await,
            Self::Sqlite(folder) => {
                Engine::open_with(&format!("sqlite:{}", Self::file(folder).display()), options).await
            }
            Self::Postgres(address) => Engine::open_with(address, options).await,
        };
        let engine = engine.unwrap();
        for saga in sagas() {
            engine.register(saga).unwrap();
        }
        engine
    }
}

/// One saga for each way of ending.
fn sagas() -> Vec<Saga> {
    let good = |id| Step::new(id, |_: Context<Value>| async { Ok("good".to_owned()) });
    let bad = Step::new("no", |_: Context<Value>| async { Err::<(), _>(StepError::refused("no").into()) });
    let waits = Step::new("waits", |ctx: Context<Value>| async move {
        if ctx.attempt() == 1 { std::future::pending().await } else { Ok(()) }
    });
    let hangs = Step::new("hangs", |_: Context<Value>| std::future::pending::<StepResult<()>>());
    let hangs = hangs.timeout(Duration::from_millis(200)).retry(Retry::none());
    let undo = |_: Context<Value>, _: Undo<String>| async { Ok(()) };
    let stuck =
        |_: Context<Value>, _: Undo<String>| async { Err::<(), _>(StepError::refused("it stays").into()) };
    let build = |saga: backstitch::Builder| saga.build().unwrap();
    vec![
        build(Saga::builder("succeeds").step(good("a")).step(good("b"))),
        build(Saga::builder("rolls-back").step(good("a").compensate(undo)).step(bad.retry(Retry::none()))),
        build(Saga::builder("hangs").step(good("a").compensate(undo)).step(hangs)),
        build(Saga::builder("waits").step(good("a")).step(waits)),
        build(
            Saga::builder("sticks").step(good("a").compensate(stuck).compensation_retry(Retry::none())).step(
                Step::new("no", |_: Context<Value>| async { Err::<(), _>(StepError::refused("no").into()) }),
            ),
        ),
    ]
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    assert!(waited.await.is_ok(), "never so: {what}");
}

async fn reaches(engine: &Engine, saga: SagaId, event: &str) {
    until(event, async || {
        let log = engine.log(saga, 0, ALL).await.unwrap();
        log.iter().any(|recorded| recorded.event.name() == event)
    })
    .await;
}

async fn ends(engine: &Engine, saga: SagaId) -> Status {
    engine.find(saga).await.unwrap().outcome().await.unwrap().status
}

/// Every cause of an event.
async fn play(place: &Place, post: &Post, events: &[&str]) -> Engine {
    let engine = place.open(post, events).await;
    let start = async |name: &str| engine.start(name, &Value::Null).await.unwrap().id();
    assert_eq!(ends(&engine, start("succeeds").await).await, Status::Succeeded);
    assert_eq!(ends(&engine, start("rolls-back").await).await, Status::Compensated);
    let stuck = start("sticks").await;
    assert_eq!(ends(&engine, stuck).await, Status::Failed);
    engine.resolve(stuck, "a", Resolution::Done, "by hand").await.unwrap();
    assert_eq!(ends(&engine, stuck).await, Status::Compensated);
    let interrupted = start("waits").await;
    engine.pause(interrupted, "lunch").await.unwrap();
    reaches(&engine, interrupted, "saga.paused").await;
    engine.resume(interrupted, "back").await.unwrap();
    reaches(&engine, interrupted, "saga.resumed").await;
    in_the_callers_transaction(place, &engine).await;
    // One saga hangs, so this is no clean shutdown; the next engine adopts it.
    let _ = engine.shutdown().await;
    let engine = place.open(post, events).await;
    reaches(&engine, interrupted, "saga.adopted").await;
    assert_eq!(ends(&engine, interrupted).await, Status::Succeeded);
    let cancelled = engine.start("hangs", &Value::Null).await.unwrap().id();
    engine.cancel(cancelled, "not any more").await.unwrap();
    assert_eq!(ends(&engine, cancelled).await, Status::Compensated);
    engine
}

/// A committed start, and one that is rolled back.
async fn in_the_callers_transaction(place: &Place, engine: &Engine) {
    let starting = || engine.start("succeeds", &Value::Null);
    let started = match place {
        Place::Memory(_) => return,
        Place::Sqlite(folder) => {
            let mut own = rusqlite::Connection::open(Place::file(folder)).unwrap();
            own.busy_timeout(PATIENCE).unwrap();
            let immediate = TransactionBehavior::Immediate;
            let transaction = own.transaction_with_behavior(immediate).unwrap();
            starting().in_sqlite(&transaction).unwrap();
            transaction.rollback().unwrap();
            let transaction = own.transaction_with_behavior(immediate).unwrap();
            let started = starting().in_sqlite(&transaction).unwrap();
            transaction.commit().unwrap();
            started
        }
        Place::Postgres(address) => {
            let (mut own, connection) = tokio_postgres::connect(address, NoTls).await.unwrap();
            tokio::spawn(connection);
            let transaction = own.transaction().await.unwrap();
            starting().in_postgres(&transaction).await.unwrap();
            transaction.rollback().await.unwrap();
            let transaction = own.transaction().await.unwrap();
            let started = starting().in_postgres(&transaction).await.unwrap();
            transaction.commit().await.unwrap();
            let by_sql = "select backstitch.start('succeeds')";
            let by_sql = SagaId(own.query_one(by_sql, &[]).await.unwrap().get(0));
            engine.look_for_work();
            assert_eq!(ends(engine, by_sql).await, Status::Succeeded);
            started
        }
    };
    engine.look_for_work();
    assert_eq!(ends(engine, started).await, Status::Succeeded);
}

/// The messages that the logs imply, saga by saga: key and content.
async fn owed(engine: &Engine, told: impl Fn(&str) -> bool) -> Vec<(SagaId, Vec<(String, Value)>)> {
    let cursor = Cursor { limit: ALL, before: None };
    let sagas = engine.list(&Filter::default(), &cursor).await.unwrap().items;
    let mut owed = Vec::new();
    for saga in sagas {
        let log = engine.log(saga.id, 0, ALL).await.unwrap();
        let events = log.iter().filter(|recorded| told(recorded.event.name()));
        let event = |recorded| {
            let view = EventView::among_all(saga.id, &saga.definition, recorded);
            (format!("{}:{}", saga.id, recorded.seq), serde_json::to_value(&view).unwrap())
        };
        owed.push((saga.id, events.map(event).collect()));
    }
    owed
}

fn on_topic(post: &Post) -> Vec<Message> {
    let arrived = post.0.lock().unwrap();
    arrived.iter().filter(|message| message.topic == SAGAS).cloned().collect()
}

/// Delivered messages match the logs in order, and nothing else was written.
async fn told_as_logged(engine: &Engine, post: &Post, told: impl Fn(&str) -> bool + Copy) {
    let owed = owed(engine, told).await;
    let all: usize = owed.iter().map(|(_, events)| events.len()).sum();
    until("everything has arrived", async || on_topic(post).len() >= all).await;
    let arrived = on_topic(post);
    for (saga, events) in owed {
        let of_saga = arrived.iter().filter(|message| message.ordering_key == Some(saga.to_string()));
        let said: Vec<(String, Value)> = of_saga
            .map(|message| (message.idempotency_key.clone(), message.payload.decode().unwrap()))
            .collect();
        assert_eq!(said, events, "{saga}");
    }
    let listing = Listing { topic: Some(SAGAS.to_owned()), ..Listing::default() };
    let written = engine.messages(&listing, ALL).await.unwrap();
    assert_eq!((written.len(), arrived.len()), (all, all), "each once");
}

async fn everything_is_told_as_it_is_logged(place: Place) {
    let post = Post::default();
    let engine = play(&place, &post, &["*"]).await;
    told_as_logged(&engine, &post, |_| true).await;
}

async fn only_what_is_announced_is_told(place: Place) {
    let post = Post::default();
    let engine = play(&place, &post, &["saga.succeeded", "step.compensat*"]).await;
    let told = |name: &str| name == "saga.succeeded" || name.starts_with("step.compensat");
    told_as_logged(&engine, &post, told).await;
}

async fn nothing_is_told_unless_asked(place: Place) {
    let post = Post::default();
    let engine = play(&place, &post, &[]).await;
    told_as_logged(&engine, &post, |_| false).await;
}

macro_rules! on_each_store {
    ($($case:ident)+) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                let store = super::SqliteStore::in_memory(std::sync::Arc::new(super::SystemClock)).unwrap();
                super::$case(super::Place::Memory(std::sync::Arc::new(store))).await;
            })+
        }
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(super::Place::Sqlite(tempfile::tempdir().unwrap())).await;
            })+
        }
        mod on_postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(super::Place::Postgres(super::postgres::fresh_database().await)).await;
            })+
        }
    };
}

on_each_store! {
    everything_is_told_as_it_is_logged
    only_what_is_announced_is_told
    nothing_is_told_unless_asked
}
