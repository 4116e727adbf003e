//! Engines with retention on both databases.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use backstitch::kernel::saga::{Recorded, audit};
use backstitch::outbox;
use backstitch::retention::{Retention, SagaAges};
use backstitch::store::postgres::pool_at;
use backstitch::{
    Context, Cursor, Engine, Filter, Options, Retry, Saga, SagaId, Status, Step, StepError, StepResult, Undo,
};
use backstitch_testkit::shelf::Shelf;
use backstitch_testkit::{obstacle, postgres, unguarded};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::Semaphore;

/// Time limit of every wait.
const SOON: Duration = backstitch_testkit::PATIENCE;
/// Everything that has ended is old enough a moment later.
pub(crate) const A_MOMENT: Option<Duration> = Some(Duration::from_millis(20));

/// Each permit lets one gated saga of the process end. The tests run in separate processes.
pub(crate) static GATE: Semaphore = Semaphore::const_new(0);

/// A new database.
pub(crate) enum Place {
    Sqlite(TempDir),
    Postgres(String),
}

impl Place {
    pub(crate) async fn each() -> [Self; 2] {
        [Self::sqlite(), Self::postgres().await]
    }

    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    pub(crate) async fn postgres() -> Self {
        Self::Postgres(postgres::fresh_database().await)
    }

    pub(crate) fn address(&self) -> String {
        match self {
            Self::Sqlite(folder) => format!("sqlite:{}", folder.path().join("sagas.db").display()),
            Self::Postgres(url) => url.clone(),
        }
    }

    /// Corrupts a saga's log, with the guards disabled.
    pub(crate) async fn spoil(&self, saga: SagaId) {
        let spoil = "update saga_events set data = '{' where seq = 1 and saga_id = ";
        match self {
            Self::Sqlite(folder) => {
                let file = rusqlite::Connection::open(folder.path().join("sagas.db")).unwrap();
                let sql = format!("{spoil} x'{}'", saga.0.simple());
                assert_eq!(unguarded::on_sqlite(&file, "saga_events", &sql).unwrap(), 1);
            }
            Self::Postgres(url) => {
                let client = pool_at(url, 1).unwrap().get().await.unwrap();
                let sql = unguarded::on_postgres("saga_events", &format!("{spoil} '{saga}'"));
                client.batch_execute(&sql).await.unwrap();
            }
        }
    }

    /// A number returned by a statement.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        match self {
            Self::Sqlite(folder) => {
                let file = rusqlite::Connection::open(folder.path().join("sagas.db")).unwrap();
                file.query_row(sql, [], |row| row.get(0)).unwrap()
            }
            Self::Postgres(url) => {
                let client = pool_at(url, 1).unwrap().get().await.unwrap();
                client.query_one(sql, &[]).await.unwrap().get(0)
            }
        }
    }

    /// Runs a statement that both dialects understand.
    pub(crate) async fn execute(&self, sql: &str) {
        match self {
            Self::Sqlite(folder) => {
                let file = rusqlite::Connection::open(folder.path().join("sagas.db")).unwrap();
                file.busy_timeout(SOON).unwrap();
                file.execute_batch(sql).unwrap();
            }
            Self::Postgres(url) => {
                pool_at(url, 1).unwrap().get().await.unwrap().batch_execute(sql).await.unwrap();
            }
        }
    }

    /// Makes the database reject an event of rows that match a condition.
    pub(crate) async fn obstruct(&self, table: &str, event: &str, condition: &str) {
        let sql = match self {
            Self::Sqlite(_) => obstacle::on_sqlite(table, event, condition),
            Self::Postgres(_) => obstacle::on_postgres(table, event, condition),
        };
        self.execute(&sql).await;
    }

    pub(crate) async fn clear(&self, table: &str) {
        let sql = match self {
            Self::Sqlite(_) => obstacle::gone_on_sqlite(table),
            Self::Postgres(_) => obstacle::gone_on_postgres(table),
        };
        self.execute(&sql).await;
    }

    /// An id in SQL.
    pub(crate) fn literal(&self, saga: SagaId) -> String {
        match self {
            Self::Sqlite(_) => format!("x'{}'", saga.0.simple()),
            Self::Postgres(_) => format!("'{saga}'"),
        }
    }

    /// Changes rows of a guarded table.
    pub(crate) async fn scribble(&self, table: &str, sql: &str) {
        match self {
            Self::Sqlite(folder) => {
                let file = rusqlite::Connection::open(folder.path().join("sagas.db")).unwrap();
                unguarded::on_sqlite(&file, table, sql).unwrap();
            }
            Self::Postgres(url) => {
                let client = pool_at(url, 1).unwrap().get().await.unwrap();
                client.batch_execute(&unguarded::on_postgres(table, sql)).await.unwrap();
            }
        }
    }

    pub(crate) async fn open(&self, retention: Retention) -> Engine {
        let engine = Engine::open_with(&self.address(), options(retention)).await.unwrap();
        engine.register(purchase()).unwrap();
        engine
    }
}

pub(crate) fn options(retention: Retention) -> Options {
    Options {
        retention,
        tick: Duration::from_millis(10),
        grace: Duration::from_secs(1),
        ..Options::default()
    }
}

/// Deletes everything that has ended, except for failed rollbacks.
pub(crate) fn soon() -> Retention {
    Retention {
        sagas: SagaAges { succeeded: A_MOMENT, compensated: A_MOMENT, failed: None },
        messages: outbox::Retention { sent: A_MOMENT, aborted: A_MOMENT, keys: A_MOMENT, besides: None },
        archive: None,
    }
}

/// A saga that follows its input: it may wait, wait for [`GATE`], be refused, and fail to be undone.
pub(crate) fn purchase() -> Saga {
    async fn reserve(ctx: Context<Value>) -> StepResult<String> {
        ctx.publish("stock", &ctx.idempotency_key(), &"one")?;
        Ok("reserved".to_owned())
    }
    async fn release(ctx: Context<Value>, _: Undo<String>) -> StepResult<()> {
        if ctx.input()["stuck"].is_null() {
            Ok(())
        } else {
            Err(StepError::refused("it cannot be released").into())
        }
    }
    async fn charge(ctx: Context<Value>) -> StepResult<()> {
        let wait = ctx.input()["wait_ms"].as_u64().unwrap_or_default();
        tokio::time::sleep(Duration::from_millis(wait)).await;
        if ctx.input()["gated"] == true {
            GATE.acquire().await.unwrap().forget();
        }
        if ctx.input()["declined"].is_null() { Ok(()) } else { Err(StepError::refused("declined").into()) }
    }
    Saga::builder("purchase")
        .step(
            Step::new("reserve", reserve)
                .compensate(release)
                .retry(Retry::none())
                .compensation_retry(Retry::none()),
        )
        .step(Step::new("charge", charge).retry(Retry::none()))
        .build()
        .unwrap()
}

/// Waits for a condition.
pub(crate) async fn eventually(what: &str, is_so: impl AsyncFn() -> bool) {
    let waited = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, waited).await.unwrap_or_else(|_| panic!("{what}: not within {SOON:?}"));
}

/// All sagas.
pub(crate) async fn all(engine: &Engine) -> BTreeMap<SagaId, Status> {
    let page = engine.list(&Filter::default(), &Cursor { before: None, limit: 10_000 }).await.unwrap();
    page.items.iter().map(|row| (row.id, row.status)).collect()
}

/// The remaining sagas are as if no others had existed.
pub(crate) async fn audit_all(engine: &Engine) {
    let ids: Vec<SagaId> = all(engine).await.into_keys().collect();
    for stored in engine.store().load(&ids).await.unwrap() {
        assert_eq!(audit(purchase().definition(), &stored.log), [], "{}", stored.summary.id);
    }
}

/// Deletes as [`soon`], and keeps the exported documents.
pub(crate) fn soon_onto(shelf: &Arc<Shelf>) -> Retention {
    Retention { archive: Some(shelf.clone()), ..soon() }
}

/// The log in an exported line, decoded like the database's.
pub(crate) fn log_of(line: &Value) -> Vec<Recorded> {
    let events = line["log"].as_array().unwrap().iter();
    let recorded = events.map(|event| {
        let data = event.get("data").map(ToString::to_string);
        let attempt = event.get("attempt").map(|attempt| u32::try_from(attempt.as_u64().unwrap()).unwrap());
        let at: jiff::Timestamp = event["at"].as_str().unwrap().parse().unwrap();
        Recorded {
            seq: event["seq"].as_u64().unwrap(),
            at: backstitch::Timestamp::from_micros(at.as_microsecond()),
            event: backstitch::kernel::saga::codec::event(
                event["type"].as_str().unwrap(),
                event.get("step").map(|step| step.as_str().unwrap()),
                attempt,
                data.as_deref(),
            )
            .unwrap(),
        }
    });
    recorded.collect()
}
