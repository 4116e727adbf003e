//! Decisions to write, and sessions that interfere.

use std::ops::Deref;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use backstitch::clock::{Clock as _, Ids as _, RandomIds, SystemClock};
use backstitch::kernel::saga::event::Started;
use backstitch::kernel::saga::{Event, Recorded, Status};
use backstitch::kernel::{Payload, SagaId, Timestamp};
use backstitch::store::postgres::{PostgresStore, pool_at};
use backstitch::store::{Commit, NewRow, RowUpdate, RowWrite, SagaStore as _};
use backstitch_testkit::postgres::fresh_database;
use tokio_postgres::{Client, NoTls, Row};

/// Time limit of every wait.
pub(crate) const SOON: Duration = backstitch_testkit::PATIENCE;

/// A store on a new database, and its address.
pub(crate) async fn fresh_store() -> (Arc<PostgresStore>, String) {
    let address = fresh_database().await;
    (Arc::new(PostgresStore::connect(&address).await.unwrap()), address)
}

/// A connection like the store's to a new migrated database.
pub(crate) async fn fresh_client() -> impl Deref<Target = impl Deref<Target = Client>> {
    let client = pool_at(&fresh_database().await, 1).unwrap().get().await.unwrap();
    client.batch_execute("set statement_timeout = 0").await.unwrap();
    client
}

/// A session besides the store's.
pub(crate) async fn session(address: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

pub(crate) fn now() -> Timestamp {
    SystemClock.now()
}

pub(crate) fn new_id() -> SagaId {
    static IDS: LazyLock<RandomIds> = LazyLock::new(RandomIds::default);
    IDS.next(now())
}

/// A saga's first decision: two events and its row.
pub(crate) fn start(saga: SagaId) -> Commit {
    let at = now();
    let started = Started {
        definition: "trip".to_owned(),
        version: 1,
        input: Payload::parse("{\"to\":\"Rome\"}").unwrap(),
        correlation_id: None,
        deadline: None,
        attributes: std::collections::BTreeMap::default(),
    };
    let row = NewRow {
        definition: "trip".into(),
        version: 1,
        status: Status::Running,
        owner: Some(1),
        wake_at: None,
        failed_step: None,
        correlation_id: None,
        attributes: std::collections::BTreeMap::default(),
        created_at: at,
    };
    Commit {
        row: Some(RowWrite::Insert(row)),
        ..decision(saga, 1, vec![Event::SagaStarted(Arc::new(started)), step_started(1)])
    }
}

/// The row of a first decision.
pub(crate) fn row(commit: &mut Commit) -> &mut NewRow {
    match &mut commit.row {
        Some(RowWrite::Insert(row)) => row,
        other => panic!("no first decision: {other:?}"),
    }
}

/// A later decision whose first event has this number.
pub(crate) fn go_on(saga: SagaId, seq: u64, attempt: u32) -> Commit {
    decision(saga, seq, vec![step_started(attempt)])
}

/// The decision that ends a saga, after this many messages.
pub(crate) fn end(saga: SagaId, seq: u64, inbox_seen: Option<u64>) -> Commit {
    let update = RowUpdate {
        status: Status::Succeeded,
        paused: false,
        failed_step: None,
        owner: None,
        wake_at: None,
        updated_at: now(),
        inbox_seen,
    };
    Commit { row: Some(RowWrite::Update(update)), ..decision(saga, seq, vec![Event::SagaSucceeded]) }
}

fn step_started(attempt: u32) -> Event {
    Event::StepStarted { step: "book".into(), attempt, outside: None }
}

fn decision(saga: SagaId, seq: u64, events: Vec<Event>) -> Commit {
    let at = now();
    let events = (seq..).zip(events).map(|(seq, event)| Recorded { seq, at, event }).collect();
    Commit {
        saga,
        events,
        row: None,
        consume_inbox_through: None,
        jobs: Vec::new(),
        withdrawn_jobs: Vec::new(),
        messages: Vec::new(),
        rows: Vec::new(),
        claim: None,
    }
}

/// The log of a saga without gaps.
pub(crate) async fn log(store: &PostgresStore, saga: SagaId) -> Vec<Event> {
    let log = store.log(saga, 0, 1000).await.unwrap();
    assert!(log.iter().map(|recorded| recorded.seq).eq(1..=log.len() as u64), "{log:?}");
    log.into_iter().map(|recorded| recorded.event).collect()
}

/// Waits until a session of the store waits for a lock, and returns its process id.
pub(crate) async fn until_blocked(watcher: &Client) -> i32 {
    blocked_session(watcher).await.get("pid")
}

/// Waits until a session of the store waits for a lock, and returns the start of its transaction.
pub(crate) async fn until_blocked_since(watcher: &Client) -> SystemTime {
    blocked_session(watcher).await.get("xact_start")
}

async fn blocked_session(watcher: &Client) -> Row {
    let blocked = "select pid, xact_start from pg_stat_activity
        where datname = current_database() and application_name = 'backstitch' and wait_event_type = 'Lock'";
    until(async || watcher.query_opt(blocked, &[]).await.unwrap()).await
}

/// Waits for a value.
pub(crate) async fn until<T>(look: impl AsyncFn() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(began.elapsed() < SOON, "waited in vain");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
