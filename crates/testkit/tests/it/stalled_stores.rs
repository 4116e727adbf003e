//! Parallel steps while the store stalls: a locked `SQLite` file, a suspended `PostgreSQL` server.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backstitch::kernel::saga::draft::{Draft, DraftStep, Performer};
use backstitch::{Attempt, Caller, Context, Engine, Event, Options, Payload, Retry, Saga, Step, StepError};
use backstitch_testkit::postgres::ThrowawayPostgres;
use futures::StreamExt as _;
use rusqlite::Connection;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::Instant;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = backstitch_testkit::PATIENCE;
/// The parts of a service's response; it waits for the acknowledgement of each.
const PIECES: [u8; 4] = *b"done";

/// Two parallel steps: one ends on demand, the other reads a response in parts.
fn saga(quick_ends: &Arc<Notify>, service: String) -> Saga {
    let quick_ends = quick_ends.clone();
    let quick = Step::new("quick", move |_: Context<()>| {
        let ends = quick_ends.clone();
        async move {
            ends.notified().await;
            Ok(())
        }
    });
    let pieces = Step::new("pieces", move |_: Context<()>| {
        let service = service.clone();
        async move {
            let mut connection = TcpStream::connect(service).await?;
            let mut response = Vec::new();
            while response.len() < PIECES.len() {
                response.push(connection.read_u8().await?);
                connection.write_all(b".").await?;
            }
            Ok(response)
        }
    });
    let steps = Saga::builder("s").step(quick.timeout(PATIENCE));
    let pieces = pieces.timeout(PATIENCE).retry(Retry::none()).depends_on::<&str>([]);
    steps.step(pieces).build().unwrap()
}

/// Runs the saga. The store stalls before the first step ends, and continues once the second has read its response.
async fn pieces_are_read_while(engine: Engine, stall: impl FnOnce(), go_on: impl FnOnce()) {
    let quick_ends = Arc::new(Notify::new());
    let service = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = service.local_addr().unwrap().to_string();
    engine.register(saga(&quick_ends, address)).unwrap();
    let run = engine.start("s", &()).await.unwrap();
    let (mut connection, _) = tokio::time::timeout(PATIENCE, service.accept()).await.unwrap().unwrap();
    stall();
    quick_ends.notify_one();
    // The saga now commits the first step's result until the store continues.
    let sent = tokio::time::timeout(PATIENCE / 2, async {
        for piece in PIECES {
            connection.write_all(&[piece]).await.unwrap();
            connection.read_u8().await.unwrap();
        }
    });
    let sent = sent.await;
    go_on();
    assert!(sent.is_ok(), "the second step does not read on while its saga commits");
    let ended = tokio::time::timeout(PATIENCE, run.outcome()).await.unwrap().unwrap();
    assert!(ended.succeeded(), "{:?}", ended.error);
    engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_read_on_while_the_sqlite_file_is_locked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sagas.db");
    let engine = Engine::open(&format!("sqlite:{}", path.display())).await.unwrap();
    let beside = Connection::open(&path).unwrap();
    let run = |sql| beside.execute_batch(sql).unwrap();
    pieces_are_read_while(engine, || run("begin immediate"), || run("rollback")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_read_on_while_postgres_is_suspended() {
    let postgres = ThrowawayPostgres::start().unwrap();
    let address = postgres.create_database().await.unwrap();
    let options = Options { lease: PATIENCE, ..Options::default() };
    let engine = Engine::open_with(&address, options).await.unwrap();
    pieces_are_read_while(engine, || postgres.suspend().unwrap(), || postgres.resume().unwrap()).await;
}

struct NoCalls;

#[async_trait]
impl Caller for NoCalls {
    async fn call(&self, _: &Payload, _: &Attempt<'_>) -> Result<Payload, StepError> {
        Err(StepError::not_done("no step of these sagas is a call"))
    }
}

fn with_declared_sagas() -> Options {
    Options { caller: Some(Arc::new(NoCalls)), lease: PATIENCE, ..Options::default() }
}

/// A saga of one step for a worker with this timeout.
fn worker_step(time: Duration) -> Draft {
    let step = DraftStep {
        id: "work".to_owned(),
        title: None,
        depends_on: None,
        action: Performer::Worker { queue: "workers".to_owned() },
        timeout: time,
        queue_timeout: None,
        retry: Retry::none(),
        compensate: None,
        concurrency: None,
    };
    Draft { steps: vec![step], ..Draft::new("s") }
}

/// A worker answers to one node while the store stalls, which goes on once the worker's time is over. Another node may own the
/// saga.
async fn answer_counts_that_arrived_during(
    owner: Engine,
    answered: &Engine,
    stall: impl FnOnce(),
    go_on: impl FnOnce(),
) {
    const TIME: Duration = Duration::from_secs(2);
    owner.declare(worker_step(TIME)).await.unwrap();
    owner.apply("s", None).await.unwrap();
    let run = owner.start("s", &()).await.unwrap();
    let mut work = owner.lease_work(&["workers".to_owned()], 1, PATIENCE, PATIENCE).await.unwrap();
    let leased = Instant::now();
    // The saga knows the lease, so only the report is left to write.
    let begins = run.events().any(async |event| matches!(event.unwrap().event, Event::StepLeased { .. }));
    assert!(begins.await);
    stall();
    let work = work.pop().unwrap();
    let mut answered = Box::pin(answered.complete_work(work.job, work.token, Payload::null()));
    assert!(tokio::time::timeout_at(leased + TIME, &mut answered).await.is_err(), "the store stalls");
    // By now the saga's executor has noticed that the time is over.
    tokio::time::sleep(Duration::from_millis(200)).await;
    go_on();
    answered.await.unwrap();
    let ended = tokio::time::timeout(PATIENCE, run.outcome()).await.unwrap().unwrap();
    assert!(ended.succeeded(), "{:?}", ended.error);
    owner.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_counts_that_arrived_while_the_file_was_locked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sagas.db");
    let engine =
        Engine::open_with(&format!("sqlite:{}", path.display()), with_declared_sagas()).await.unwrap();
    let beside = Connection::open(&path).unwrap();
    let run = |sql| beside.execute_batch(sql).unwrap();
    let (stall, go_on) = (|| run("begin immediate"), || run("rollback"));
    answer_counts_that_arrived_during(engine.clone(), &engine, stall, go_on).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_counts_that_arrived_while_postgres_was_suspended() {
    let postgres = ThrowawayPostgres::start().unwrap();
    let address = postgres.create_database().await.unwrap();
    let engine = Engine::open_with(&address, with_declared_sagas()).await.unwrap();
    let (stall, go_on) = (|| postgres.suspend().unwrap(), || postgres.resume().unwrap());
    answer_counts_that_arrived_during(engine.clone(), &engine, stall, go_on).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_counts_that_arrived_at_another_node() {
    let postgres = ThrowawayPostgres::start().unwrap();
    let address = postgres.create_database().await.unwrap();
    // Nodes say ten times in a lease what they have written.
    let options = || Options { lease: Duration::from_secs(30), ..with_declared_sagas() };
    let owner = Engine::open_with(&address, options()).await.unwrap();
    let other = Engine::open_with(&address, options()).await.unwrap();
    let (stall, go_on) = (|| postgres.suspend().unwrap(), || postgres.resume().unwrap());
    answer_counts_that_arrived_during(owner, &other, stall, go_on).await;
    other.shutdown().await.unwrap();
}
