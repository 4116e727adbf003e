//! A saga started inside the caller's transaction exists if, and only if, that commits.

use std::sync::Arc;
use std::time::Duration;

use backstitch::clock::{Clock, SystemClock};
use backstitch::{Context, Engine, Error, ErrorKind, Options, Saga, SagaId, Status, Step, Timestamp};
use backstitch_testkit::postgres;
use rusqlite::TransactionBehavior;
use tokio_postgres::NoTls;

fn greeting() -> Saga {
    let step = Step::new("greet", |ctx: Context<String>| async move { Ok(format!("hello {}", ctx.input())) });
    Saga::builder("greeting").step(step).build().unwrap()
}

async fn engine_with_greeting(address: &str) -> Engine {
    let engine = Engine::open(address).await.unwrap();
    engine.register(greeting()).unwrap();
    engine
}

async fn ends_well(engine: &Engine, saga: SagaId) {
    let outcome = engine.find(saga).await.unwrap().outcome().await.unwrap();
    assert_eq!(outcome.status, Status::Succeeded);
    assert_eq!(outcome.result::<String>("greet").unwrap(), "hello ada");
}

struct File {
    _folder: tempfile::TempDir,
    path: std::path::PathBuf,
}

impl File {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { path: folder.path().join("app.db"), _folder: folder }
    }

    fn address(&self) -> String {
        format!("sqlite:{}", self.path.display())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_sqlite_saga_and_callers_row_commit_together() {
    let file = File::new();
    let engine = engine_with_greeting(&file.address()).await;
    let mut own = rusqlite::Connection::open(&file.path).unwrap();
    own.execute_batch("create table orders (id integer primary key)").unwrap();
    let transaction = own.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    transaction.execute("insert into orders values (1)", []).unwrap();
    let saga = engine.start("greeting", "ada").key("order-1").in_sqlite(&transaction).unwrap();
    assert!(engine.load(saga).await.unwrap().is_none(), "nothing is there before the commit");
    transaction.commit().unwrap();
    engine.look_for_work();
    ends_well(&engine, saga).await;
    let again = engine.start("greeting", "ada").key("order-1").await.unwrap();
    assert_eq!(again.id(), saga);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_sqlite_a_rolled_back_transaction_leaves_no_saga() {
    let file = File::new();
    let engine = engine_with_greeting(&file.address()).await;
    let mut own = rusqlite::Connection::open(&file.path).unwrap();
    let transaction = own.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let saga = engine.start("greeting", "ada").key("k").in_sqlite(&transaction).unwrap();
    transaction.rollback().unwrap();
    assert!(engine.load(saga).await.unwrap().is_none());
    let fresh = engine.start("greeting", "ada").key("k").await.unwrap();
    assert_ne!(fresh.id(), saga, "the key was not used up");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_sqlite_conflicting_key_is_refused_in_the_transaction() {
    let file = File::new();
    let engine = engine_with_greeting(&file.address()).await;
    let first = engine.start("greeting", "ada").key("k").await.unwrap();
    let mut own = rusqlite::Connection::open(&file.path).unwrap();
    let transaction = own.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let refused = engine.start("greeting", "bob").key("k").in_sqlite(&transaction);
    assert!(matches!(refused, Err(Error::KeyConflict { saga, .. }) if saga == first.id()));
    let same = engine.start("greeting", "ada").key("k").in_sqlite(&transaction).unwrap();
    assert_eq!(same, first.id());
}

#[tokio::test(flavor = "multi_thread")]
async fn on_sqlite_mismatched_version_is_refused() {
    let file = File::new();
    let engine = engine_with_greeting(&file.address()).await;
    engine.start("greeting", "ada").await.unwrap().outcome().await.unwrap();
    engine.shutdown().await.unwrap();
    let engine = Engine::open(&file.address()).await.unwrap();
    let step = |id: &str| Step::new(id, |_: Context<String>| async { Ok(()) });
    engine.register(Saga::builder("greeting").step(step("bow")).step(step("wave")).build().unwrap()).unwrap();
    let mut own = rusqlite::Connection::open(&file.path).unwrap();
    let transaction = own.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let refused = engine.start("greeting", "ada").in_sqlite(&transaction);
    assert!(matches!(refused, Err(Error::VersionTaken { version: 1, .. })), "{refused:?}");
}

/// The end of a saga that was late from the start.
async fn ends_late(engine: &Engine, saga: SagaId) {
    engine.look_for_work();
    let outcome = engine.find(saga).await.unwrap().outcome();
    let outcome = tokio::time::timeout(backstitch_testkit::PATIENCE, outcome).await.unwrap().unwrap();
    assert_eq!(outcome.status, Status::Compensated);
    assert_eq!(outcome.error.unwrap().kind, ErrorKind::DeadlineExceeded);
}

fn a_while_ago() -> Timestamp {
    Timestamp::from_micros(SystemClock.now().as_micros() - 60_000_000)
}

#[tokio::test(flavor = "multi_thread")]
async fn on_sqlite_saga_past_its_deadline_is_rolled_back() {
    let file = File::new();
    let engine = engine_with_greeting(&file.address()).await;
    let mut own = rusqlite::Connection::open(&file.path).unwrap();
    let transaction = own.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let saga = engine.start("greeting", "ada").deadline(a_while_ago()).in_sqlite(&transaction).unwrap();
    transaction.commit().unwrap();
    ends_late(&engine, saga).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_postgres_saga_past_its_deadline_is_rolled_back() {
    let address = postgres::fresh_database().await;
    let engine = engine_with_greeting(&address).await;
    let mut own = own_connection(&address).await;
    let transaction = own.transaction().await.unwrap();
    let saga =
        engine.start("greeting", "ada").deadline(a_while_ago()).in_postgres(&transaction).await.unwrap();
    transaction.commit().await.unwrap();
    ends_late(&engine, saga).await;
}

async fn own_connection(address: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn on_postgres_saga_and_callers_row_commit_together() {
    let address = postgres::fresh_database().await;
    let engine = engine_with_greeting(&address).await;
    let mut own = own_connection(&address).await;
    own.batch_execute("create table orders (id integer primary key)").await.unwrap();
    let transaction = own.transaction().await.unwrap();
    transaction.execute("insert into orders values (1)", &[]).await.unwrap();
    let saga = engine.start("greeting", "ada").key("order-1").in_postgres(&transaction).await.unwrap();
    assert!(engine.load(saga).await.unwrap().is_none(), "nothing is there before the commit");
    transaction.commit().await.unwrap();
    engine.look_for_work();
    ends_well(&engine, saga).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_postgres_a_rolled_back_transaction_leaves_no_saga() {
    let address = postgres::fresh_database().await;
    let engine = engine_with_greeting(&address).await;
    let mut own = own_connection(&address).await;
    let transaction = own.transaction().await.unwrap();
    let saga = engine.start("greeting", "ada").in_postgres(&transaction).await.unwrap();
    transaction.rollback().await.unwrap();
    assert!(engine.load(saga).await.unwrap().is_none());
}

/// A node with a clock an hour ahead.
struct Ahead;

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        SystemClock.now().plus(Duration::from_secs(3600))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_postgres_a_saga_does_not_wait_for_a_clock_that_is_ahead() {
    let address = postgres::fresh_database().await;
    let options = Options { clock: Arc::new(Ahead), ..Options::default() };
    let ahead = Engine::open_with(&address, options).await.unwrap();
    ahead.register(greeting()).unwrap();
    let engine = engine_with_greeting(&address).await;
    let mut own = own_connection(&address).await;
    let transaction = own.transaction().await.unwrap();
    let saga = ahead.start("greeting", "ada").in_postgres(&transaction).await.unwrap();
    transaction.commit().await.unwrap();
    let due = "select wake_at <= clock_timestamp() or wake_at is null from backstitch.sagas where id = $1";
    assert!(
        own.query_one(due, &[&saga.0]).await.unwrap().get::<_, bool>(0),
        "it is due by the database's clock"
    );
    engine.look_for_work();
    tokio::time::timeout(backstitch_testkit::PATIENCE, ends_well(&engine, saga)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_saga_started_by_the_sql_function_is_run_by_an_engine() {
    let address = postgres::fresh_database().await;
    let engine = engine_with_greeting(&address).await;
    // The first start stores the definition, which the function looks up.
    engine.start("greeting", "warm-up").await.unwrap().outcome().await.unwrap();
    let mut own = own_connection(&address).await;
    let transaction = own.transaction().await.unwrap();
    let sql = "select backstitch.start('greeting', '\"ada\"', idempotency_key => 'order-1', notify => true)";
    let saga: uuid::Uuid = transaction.query_one(sql, &[]).await.unwrap().get(0);
    transaction.commit().await.unwrap();
    ends_well(&engine, backstitch::kernel::SagaId(saga)).await;
    let again: uuid::Uuid = own.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(again, saga, "the same key is the same saga");
    let other = sql.replace("ada", "bob");
    let refused = own.query_one(&other, &[]).await.unwrap_err();
    assert!(refused.as_db_error().is_some(), "{refused}");
    let unknown = own.query_one("select backstitch.start('no-such')", &[]).await.unwrap_err();
    assert!(unknown.as_db_error().unwrap().message().contains("no-such"), "{unknown}");
}
