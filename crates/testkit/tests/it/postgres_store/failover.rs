//! A primary with a synchronous standby: acknowledged writes survive a failover, whatever ended the wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use backstitch::kernel::Payload;
use backstitch::kernel::idempotency::Digest;
use backstitch::store::documents::{DocumentStore as _, SAGA};
use backstitch::store::outbox::{NewMessage, Publication, Published};
use backstitch::store::postgres::PostgresStore;
use backstitch::store::{Claim, Commit, Error, MessageStore as _, SagaStore as _, Verdict};
use backstitch::{Context, Engine, Options, Saga, Step};
use backstitch_testkit::postgres::replicated::{CONFIRM, Replicated};
use tokio::task::JoinHandle;
use tokio_postgres::SimpleQueryMessage;

use crate::postgres_store::support::{SOON, new_id, now, session, start};

/// Words of the statement that writes decisions.
const COMMIT: &str = "A batch of decisions";
/// Words of the statement that adopts sagas.
const ADOPT: &str = "A node that was struck off takes nothing";

async fn sagas(address: &str) -> i64 {
    let counted = session(address).await.query_one("select count(*) from backstitch.sagas", &[]).await;
    counted.unwrap().get(0)
}

/// A saga of one step that calls a service and counts its calls.
fn saga() -> (Saga, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let called = calls.clone();
    let step = Step::new("call", move |_: Context<()>| {
        called.fetch_add(1, Ordering::SeqCst);
        async { Ok(()) }
    });
    (Saga::builder("s").step(step).build().unwrap(), calls)
}

/// An engine on this database that has already run a saga.
async fn engine(address: &str) -> (Engine, Arc<AtomicUsize>) {
    // Its heartbeats wait for the standby too, and must not prevent it from acting.
    let options = Options { lease: SOON, ..Options::default() };
    let engine = Engine::open_with(address, options).await.unwrap();
    let (saga, calls) = saga();
    engine.register(saga).unwrap();
    assert!(engine.start("s", &()).await.unwrap().outcome().await.unwrap().succeeded());
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    (engine, calls)
}

fn starting(engine: &Engine) -> JoinHandle<Result<backstitch::Run, backstitch::Error>> {
    let engine = engine.clone();
    tokio::spawn(async move { engine.start("s", &()).key("k").await })
}

/// Writes a decision with a separate store.
fn committing(address: &str, commit: Commit) -> JoinHandle<Result<Vec<Verdict>, Error>> {
    let address = address.to_owned();
    tokio::spawn(async move { PostgresStore::connect(&address).await?.commit(&[commit]).await })
}

/// Publishes the same message with a separate store.
fn publishing(address: &str) -> JoinHandle<Result<Vec<Published>, Error>> {
    let address = address.to_owned();
    let message = NewMessage {
        topic: "t".to_owned(),
        idempotency_key: "k".to_owned(),
        ordering_key: None,
        payload: Payload::null(),
        expires_at: None,
    };
    let publication =
        Publication { message, digest: Digest([3; 32]), expires_in: None, ordering_scope: None };
    tokio::spawn(async move { PostgresStore::connect(&address).await?.publish(&[publication], now()).await })
}

#[tokio::test(flavor = "multi_thread")]
async fn saga_lost_in_a_failover_was_not_acknowledged() {
    let mut servers = Replicated::start(&[]).await;
    let (engine, calls) = engine(&servers.address).await;
    servers.standby.stop_immediate().unwrap();
    let starting = starting(&engine);
    let commit = servers.until_waiting(COMMIT, &starting).await;
    servers.end("pg_terminate_backend", commit).await;
    // The saga is visible now, and the engine looks it up.
    let confirming = servers.until_waiting(CONFIRM, &starting).await;
    assert_eq!(sagas(&servers.address).await, 2);
    // An interrupted confirmation confirms nothing.
    servers.end("pg_terminate_backend", confirming).await;
    servers.until_waiting(CONFIRM, &starting).await;
    let promoted = servers.fail_over().await;
    assert_eq!(sagas(&promoted).await, 1, "the standby has it: nothing was shown");
    assert_eq!(calls.load(Ordering::SeqCst), 1, "a saga that is lost has called its service");
    starting.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_standby_wait_is_not_an_acknowledgement() {
    let mut servers = Replicated::start(&[]).await;
    let (engine, calls) = engine(&servers.address).await;
    servers.standby.stop_immediate().unwrap();
    let starting = starting(&engine);
    let commit = servers.until_waiting(COMMIT, &starting).await;
    servers.end("pg_cancel_backend", commit).await;
    let confirming = servers.until_waiting(CONFIRM, &starting).await;
    servers.end("pg_cancel_backend", confirming).await;
    servers.until_waiting(CONFIRM, &starting).await;
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    servers.standby.start_again().unwrap();
    let run = Replicated::answer(starting).await.unwrap();
    assert!(run.outcome().await.unwrap().succeeded());
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    assert_eq!(sagas(&servers.fail_over().await).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_start_waits_for_the_standby() {
    let mut servers = Replicated::start(&[]).await;
    servers.standby.stop_immediate().unwrap();
    let claim = Claim { scope: "s".to_owned(), key: "k".to_owned(), digest: Digest([3; 32]) };
    let request = |saga| Commit { claim: Some(claim.clone()), ..start(saga) };
    let saga = new_id();
    let first = committing(&servers.address, request(saga));
    servers.until_waiting(COMMIT, &first).await;
    first.abort();
    servers.crash_primary();
    assert_eq!(sagas(&servers.address).await, 1, "recovery shows what was committed here only");
    let again = committing(&servers.address, request(new_id()));
    servers.until_waiting(CONFIRM, &again).await;
    servers.standby.start_again().unwrap();
    let verdicts = Replicated::answer(again).await.unwrap();
    assert_eq!(verdicts, [Verdict::Replay(saga)]);
    assert_eq!(sagas(&servers.fail_over().await).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_publication_waits_for_the_standby() {
    let mut servers = Replicated::start(&[]).await;
    servers.standby.stop_immediate().unwrap();
    let first = publishing(&servers.address);
    servers.until_waiting("COMMIT", &first).await;
    first.abort();
    servers.crash_primary();
    let again = publishing(&servers.address);
    servers.until_waiting("COMMIT", &again).await;
    servers.standby.start_again().unwrap();
    let published = Replicated::answer(again).await.unwrap();
    assert!(matches!(published[..], [Published::Replay(_)]), "{published:?}");
}

/// Runs one statement as another program, and returns its only value.
fn asking(address: &str, statement: &'static str) -> JoinHandle<String> {
    let address = address.to_owned();
    tokio::spawn(async move {
        let said = session(&address).await.simple_query(statement).await.unwrap();
        let value = said.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        value.unwrap().to_owned()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_key_in_sql_waits_for_the_standby() {
    let mut servers = Replicated::start(&[]).await;
    let register = "insert into backstitch.document_versions (kind, name, version, fingerprint, body) values ('saga', 's', 1, 1, '{}')";
    session(&servers.address).await.batch_execute(register).await.unwrap();
    servers.standby.stop_immediate().unwrap();
    let statements =
        ["select backstitch.start('s', 'null', 'k')", "select backstitch.publish('t', 'k', 'null')"];
    for statement in statements {
        let first = asking(&servers.address, statement);
        servers.until_waiting(statement, &first).await;
        first.abort();
    }
    servers.crash_primary();
    let found = "select (select id::text from backstitch.sagas), (select id::text from backstitch.outbox)";
    let found = session(&servers.address).await.query_one(found, &[]).await.unwrap();
    let mut again = Vec::new();
    for statement in statements {
        let asking = asking(&servers.address, statement);
        servers.until_waiting(statement, &asking).await;
        again.push(asking);
    }
    servers.standby.start_again().unwrap();
    for (place, again) in again.into_iter().enumerate() {
        assert_eq!(Replicated::answer(again).await, found.get::<_, String>(place));
    }
    assert_eq!(sagas(&servers.fail_over().await).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn adopted_saga_runs_after_the_standby_has_it() {
    let mut servers = Replicated::start(&[]).await;
    let (engine, calls) = engine(&servers.address).await;
    servers.standby.stop_immediate().unwrap();
    let other = session(&servers.address).await;
    let start = "select backstitch.start('s', 'null')";
    let starting = tokio::spawn(async move { other.batch_execute(start).await });
    let waiting = servers.until_waiting(start, &starting).await;
    servers.end("pg_terminate_backend", waiting).await;
    starting.await.unwrap().unwrap_err();
    assert_eq!(sagas(&servers.address).await, 2);
    servers.primary.until_waiting_for_standby(ADOPT, SOON).await.unwrap();
    let promoted = servers.fail_over().await;
    assert_eq!(sagas(&promoted).await, 1);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    drop(engine);
}

#[tokio::test(flavor = "multi_thread")]
async fn durable_lookup_waits_for_the_standby() {
    let mut servers = Replicated::start(&[]).await;
    servers.standby.stop_immediate().unwrap();
    let store = PostgresStore::connect(&servers.address).await.unwrap();
    let declared = tokio::spawn(async move { store.durable_document(SAGA, "s").await });
    servers.until_waiting(CONFIRM, &declared).await;
    servers.standby.start_again().unwrap();
    assert!(Replicated::answer(declared).await.unwrap().is_none());
}
