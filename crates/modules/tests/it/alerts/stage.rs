//! Engines that raise alerts.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backstitch::clock::{Clock, SystemClock};
use backstitch::outbox::Routes;
use backstitch::retention::Retention;
use backstitch::sink::{Message, Receipt, Sink, Undelivered};
use backstitch::store::product::Database;
use backstitch::{Context, Engine, Options, Retry, Saga, SagaId, Step, StepError, Timestamp, Undo};
use backstitch_modules::alerts::{self, AlertSink, Config, Email, Listed, Security};
use backstitch_testkit::postgres;
use serde_json::{Value, json};
use tokio::sync::mpsc;

const HOUR: Duration = Duration::from_secs(3600);

/// A database of its own.
pub(crate) enum Place {
    Sqlite(tempfile::TempDir),
    Postgres(String),
}

impl Place {
    pub(crate) fn file() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    pub(crate) async fn each() -> [Self; 2] {
        [Self::file(), Self::Postgres(postgres::migrated_database(&[&alerts::SCHEMA]).await)]
    }

    fn address(&self) -> String {
        match self {
            Self::Sqlite(folder) => format!("sqlite:{}", folder.path().join("alerts.db").display()),
            Self::Postgres(url) => url.clone(),
        }
    }

    fn options(&self) -> Options {
        let products = vec![&alerts::SCHEMA];
        match self {
            // Waits are short by a clock that is in a hurry, and nothing else is late by it.
            Self::Sqlite(_) => Options {
                products,
                clock: Arc::new(Hurried::default()),
                tick: Duration::from_millis(10),
                lease: HOUR,
                send_timeout: HOUR,
                ..Options::default()
            },
            Self::Postgres(_) => Options { products, ..Options::default() },
        }
    }
}

/// A hundred times as fast as time.
struct Hurried {
    since: tokio::time::Instant,
    at: Timestamp,
}

impl Default for Hurried {
    fn default() -> Self {
        Self { since: tokio::time::Instant::now(), at: SystemClock.now() }
    }
}

impl Clock for Hurried {
    fn now(&self) -> Timestamp {
        self.at.plus(self.since.elapsed() * 100)
    }
}

/// An engine with alerts.
pub(crate) struct Stage {
    pub(crate) engine: Engine,
    pub(crate) sink: Arc<AlertSink>,
    sends: mpsc::UnboundedReceiver<Result<(), String>>,
    /// The database goes last.
    _place: Place,
}

impl Stage {
    pub(crate) async fn open(place: Place, config: &Config) -> Self {
        let stage = Self::open_unattached(place, config).await;
        stage.sink.attach(&stage.engine).await.unwrap();
        stage
    }

    pub(crate) async fn open_unattached(place: Place, config: &Config) -> Self {
        Self::open_keeping(place, config, Retention::default()).await
    }

    /// The same with ages.
    pub(crate) async fn open_keeping(place: Place, config: &Config, retention: Retention) -> Self {
        let sink = Arc::new(AlertSink::new(config).unwrap());
        let (heard, sends) = mpsc::unbounded_channel();
        let watched = Watched { sink: sink.clone(), heard };
        let routes = Routes::all_to(Arc::new(watched));
        let options = Options { routes, retention, ..place.options() };
        Self::open_with(place, options, sink, sends).await
    }

    /// The same where no message is sent.
    pub(crate) async fn open_without_relay(place: Place, config: &Config) -> Self {
        let sink = Arc::new(AlertSink::new(config).unwrap());
        let options = Options { routes: Routes::none(), ..place.options() };
        let stage = Self::open_with(place, options, sink, mpsc::unbounded_channel().1).await;
        stage.sink.attach(&stage.engine).await.unwrap();
        stage
    }

    async fn open_with(
        place: Place,
        options: Options,
        sink: Arc<AlertSink>,
        sends: mpsc::UnboundedReceiver<Result<(), String>>,
    ) -> Self {
        let engine = Engine::open_with(&place.address(), options).await.unwrap();
        for saga in [order(), farewell()] {
            engine.register(saga).unwrap();
        }
        Self { engine, sink, sends, _place: place }
    }

    /// A saga whose payment cannot be taken back, for this reason.
    pub(crate) async fn fail_a_rollback(&self, why: &str) -> SagaId {
        let run = self.engine.start("order", &json!({ "why": why })).await.unwrap();
        let id = run.id();
        assert_eq!(run.outcome().await.unwrap().status.as_str(), "failed");
        id
    }

    /// A saga that nobody can be told the end of.
    pub(crate) async fn fail_a_hook(&self) -> SagaId {
        let run = self.engine.start("farewell", &json!({})).await.unwrap();
        let id = run.id();
        assert!(run.outcome().await.unwrap().succeeded());
        id
    }

    /// Waits until the sink has been asked to send something, and gives its answer.
    pub(crate) async fn sent(&mut self) -> Result<(), String> {
        self.sends.recv().await.unwrap()
    }

    /// Waits until an alert is out, and gives the answers that came before.
    pub(crate) async fn out(&mut self) -> Vec<String> {
        let mut failures = Vec::new();
        while let Err(failure) = self.sent().await {
            failures.push(failure);
        }
        failures
    }

    /// The newest alert.
    pub(crate) async fn newest(&self) -> Listed {
        alerts::list(&self.engine, 1, None).await.unwrap().items.remove(0)
    }

    /// Changes something around the engine.
    pub(crate) async fn change(&self, sql: &str) -> Result<(), backstitch::store::Error> {
        match self.engine.database() {
            Database::Sqlite(file) => {
                let sql = sql.to_owned();
                file.write_product(move |transaction| transaction.execute(&sql, [])).await.map(drop)
            }
            Database::Postgres(server) => server.write_product(sql, &[]).await.map(drop),
        }
    }
}

/// Channel, recipient and number of tries of each who has had the alert.
pub(crate) fn notified(listed: &Listed) -> Vec<(&str, &str, u32)> {
    let notices = listed.notices.iter().filter(|notice| notice.notified_at.is_some());
    notices
        .map(|notice| {
            (notice.channel.as_str(), notice.recipient.as_deref().unwrap_or_default(), notice.attempts)
        })
        .collect()
}

/// Settings for mail to a server on this machine.
pub(crate) fn email(port: u16) -> Email {
    Email {
        host: "127.0.0.1".to_owned(),
        port: Some(port),
        security: Security::None,
        user: None,
        password: None,
        from: "Backstitch <backstitch@example.com>".to_owned(),
        to: vec!["ops@example.com".to_owned()],
        timeout: Duration::from_secs(20),
        root_certificate: None,
    }
}

fn order() -> Saga {
    let payment = Step::new("payment", |_: Context<Value>| async { Ok(json!("paid")) })
        .compensate(|ctx: Context<Value>, _: Undo<Value>| async move {
            let why = ctx.input()["why"].as_str().unwrap().to_owned();
            Err::<(), _>(StepError::not_done(why).with_code("BANK_CLOSED").into())
        })
        .compensation_retry(Retry::none());
    let inventory = Step::new("inventory", |_: Context<Value>| async {
        Err::<(), _>(StepError::refused("out of stock").into())
    });
    Saga::builder("order").step(payment).step(inventory).build().unwrap()
}

fn farewell() -> Saga {
    let step = Step::new("go", |_: Context<Value>| async { Ok(()) });
    let hook = |_| async { Err(StepError::not_done("nobody listens").into()) };
    Saga::builder("farewell").step(step).on_success(hook).build().unwrap()
}

/// Tells the test what the sink answers.
struct Watched {
    sink: Arc<AlertSink>,
    heard: mpsc::UnboundedSender<Result<(), String>>,
}

#[async_trait]
impl Sink for Watched {
    async fn send(&self, message: &Message) -> Result<Receipt, Undelivered> {
        let answer = self.sink.send(message).await;
        self.heard.send(answer.clone().map(|_| ()).map_err(|why| why.message)).ok();
        answer
    }
}
