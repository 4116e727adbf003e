//! A primary with a synchronous standby: what is acknowledged survives a failover, whatever ended the wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use backstitch::kernel::Payload;
use backstitch::kernel::idempotency::Digest;
use backstitch::store::outbox::{NewMessage, Publication, Published};
use backstitch::store::postgres::PostgresStore;
use backstitch::store::{Claim, Commit, Error, Store as _, Verdict};
use backstitch::{Context, Engine, Options, Saga, Step};
use backstitch_testkit::postgres::ThrowawayPostgres;
use tokio::task::JoinHandle;

use crate::postgres_store::support::{SOON, new_id, now, session, start};

/// Words of the statement that writes decisions.
const COMMIT: &str = "One batch of decisions";
/// Words of the statement that confirms a lookup.
const CONFIRM: &str = "pg_logical_emit_message";
/// Words of the statement that adopts sagas.
const ADOPT: &str = "Takes sagas of dead owners";

struct Replicated {
    primary: ThrowawayPostgres,
    standby: ThrowawayPostgres,
    /// A migrated database of the primary.
    address: String,
}

impl Replicated {
    async fn start() -> Self {
        let primary = ThrowawayPostgres::start().unwrap();
        let address = primary.create_database().await.unwrap();
        PostgresStore::connect(&address).await.unwrap();
        let standby = primary.start_standby().await.unwrap();
        Self { primary, standby, address }
    }

    /// Waits until such a statement waits for the standby. The request that sent it must not end meanwhile.
    async fn until_waiting<T>(&self, words: &str, request: &JoinHandle<T>) -> i32 {
        let pid = self.primary.until_waiting_for_standby(words, SOON);
        let ends = async {
            while !request.is_finished() {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            pid = pid => pid.unwrap(),
            () = ends => panic!("it was answered before the standby had it"),
        }
    }

    async fn end(&self, how: &str, pid: i32) {
        let watcher = session(&self.address).await;
        let ended = watcher.query_one(&format!("select {how}($1)"), &[&pid]).await.unwrap();
        assert!(ended.get::<_, bool>(0), "the fault did not strike");
    }

    /// The primary is lost, and the standby takes its place. Returns the address of the same database there.
    async fn fail_over(&mut self) -> String {
        self.primary.stop_immediate().unwrap();
        if self.standby.pid().is_none() {
            self.standby.start_again().unwrap();
        }
        self.standby.promote().await.unwrap();
        let database = self.address.rsplit_once('/').unwrap().1.to_owned();
        self.standby.url(&database)
    }
}

async fn sagas(address: &str) -> i64 {
    let counted = session(address).await.query_one("select count(*) from backstitch.sagas", &[]).await;
    counted.unwrap().get(0)
}

/// A saga of one step that calls a service, and how often it was called.
fn saga() -> (Saga, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let called = calls.clone();
    let step = Step::new("call", move |_: Context<()>| {
        called.fetch_add(1, Ordering::SeqCst);
        async { Ok(()) }
    });
    (Saga::builder("s").step(step).build().unwrap(), calls)
}

/// An engine on this database, which has run a saga already.
async fn engine(address: &str) -> (Engine, Arc<AtomicUsize>) {
    // Its heartbeats wait for the standby too, and must not be what keeps it from acting.
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

/// Writes a decision with a store of its own.
fn committing(address: &str, commit: Commit) -> JoinHandle<Result<Vec<Verdict>, Error>> {
    let address = address.to_owned();
    tokio::spawn(async move { PostgresStore::connect(&address).await?.commit(&[commit]).await })
}

/// Publishes a message with a store of its own, always the same.
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
    let mut servers = Replicated::start().await;
    let (engine, calls) = engine(&servers.address).await;
    servers.standby.stop_immediate().unwrap();
    let starting = starting(&engine);
    let commit = servers.until_waiting(COMMIT, &starting).await;
    servers.end("pg_terminate_backend", commit).await;
    // The saga is visible now, and the engine looks for it.
    let confirming = servers.until_waiting(CONFIRM, &starting).await;
    assert_eq!(sagas(&servers.address).await, 2);
    // A confirmation that is cut short confirms nothing.
    servers.end("pg_terminate_backend", confirming).await;
    servers.until_waiting(CONFIRM, &starting).await;
    let promoted = servers.fail_over().await;
    assert_eq!(sagas(&promoted).await, 1, "the standby has it: nothing was shown");
    assert_eq!(calls.load(Ordering::SeqCst), 1, "a saga that is lost has called its service");
    starting.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_standby_wait_is_not_an_acknowledgement() {
    let mut servers = Replicated::start().await;
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
    let run = tokio::time::timeout(SOON, starting).await.unwrap().unwrap().unwrap();
    assert!(run.outcome().await.unwrap().succeeded());
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    assert_eq!(sagas(&servers.fail_over().await).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_start_waits_for_the_standby() {
    let mut servers = Replicated::start().await;
    servers.standby.stop_immediate().unwrap();
    let claim = Claim { scope: "s".to_owned(), key: "k".to_owned(), digest: Digest([3; 32]) };
    let request = |saga| Commit { claim: Some(claim.clone()), ..start(saga) };
    let saga = new_id();
    let first = committing(&servers.address, request(saga));
    servers.until_waiting(COMMIT, &first).await;
    first.abort();
    servers.primary.stop_immediate().unwrap();
    servers.primary.start_again().unwrap();
    assert_eq!(sagas(&servers.address).await, 1, "recovery shows what was committed here only");
    let again = committing(&servers.address, request(new_id()));
    servers.until_waiting(CONFIRM, &again).await;
    servers.standby.start_again().unwrap();
    let verdicts = tokio::time::timeout(SOON, again).await.unwrap().unwrap().unwrap();
    assert_eq!(verdicts, [Verdict::Replay(saga)]);
    assert_eq!(sagas(&servers.fail_over().await).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_publication_waits_for_the_standby() {
    let mut servers = Replicated::start().await;
    servers.standby.stop_immediate().unwrap();
    let first = publishing(&servers.address);
    servers.until_waiting("COMMIT", &first).await;
    first.abort();
    servers.primary.stop_immediate().unwrap();
    servers.primary.start_again().unwrap();
    let again = publishing(&servers.address);
    servers.until_waiting("COMMIT", &again).await;
    servers.standby.start_again().unwrap();
    let published = tokio::time::timeout(SOON, again).await.unwrap().unwrap().unwrap();
    assert!(matches!(published[..], [Published::Replay(_)]), "{published:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn adopted_saga_runs_after_the_standby_has_it() {
    let mut servers = Replicated::start().await;
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
    let mut servers = Replicated::start().await;
    servers.standby.stop_immediate().unwrap();
    let store = PostgresStore::connect(&servers.address).await.unwrap();
    let declared = tokio::spawn(async move { store.durably_declared("s").await });
    servers.until_waiting(CONFIRM, &declared).await;
    servers.standby.start_again().unwrap();
    assert!(tokio::time::timeout(SOON, declared).await.unwrap().unwrap().unwrap().is_none());
}
