//! The server: everything put together, from the settings to the last connection.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use backstitch::clock::{Clock, SystemClock};
use backstitch::outbox::{Route, Routes};
use backstitch::retention::{Archive, NotKept};
use backstitch::store::outbox::ALERTS;
use backstitch::store::product::Schema;
use backstitch::watch::Broadcast;
use backstitch::{Caller, Engine, Options, store};
use backstitch_modules::alerts::{self, AlertSink};
use backstitch_modules::archive::Files;
use backstitch_modules::http_call::{self, HeaderError, HeaderStorage, HttpCaller};
use backstitch_modules::orders::{self, Orders};
use backstitch_modules::outbox;
use backstitch_modules::webhooks::SCHEMA;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::app::{App, Parts};
use crate::auth::{Gate, Hasher, Keyring, Keys, Leaves, Rates, server_secret, watch_leaves};
use crate::config::{CappedCalls, Config};
use crate::console::{Outcomes, Pulse};
use crate::database::{Database, migrations};
use crate::doctor::{self, Doctor};
use crate::http::Acceptor;
use crate::lifecycles::{self, Courses};
use crate::routes;
use crate::telemetry::Metrics;
use crate::watch::{BUFFERED_EVENTS, watch_events};
use crate::webhooks::{self, Hooks};

/// Everything on the engine that has tables of its own.
pub(crate) const PRODUCTS: [&Schema; 4] =
    [&orders::SCHEMA, &alerts::SCHEMA, &SCHEMA, &backstitch_modules::lifecycles::SCHEMA];

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database cannot be used.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The engine cannot be started.
    #[error(transparent)]
    Engine(#[from] backstitch::Error),
    /// Services cannot be called.
    #[error(transparent)]
    Calls(#[from] http_call::SetupError),
    /// The values of headers cannot be encrypted.
    #[error(transparent)]
    Headers(#[from] HeaderError),
    /// Alerts would reach nobody.
    #[error(transparent)]
    Alerts(#[from] alerts::BadConfig),
    /// Alerts cannot be recorded.
    #[error(transparent)]
    Notices(#[from] alerts::CannotAttach),
    /// Messages would go nowhere.
    #[error(transparent)]
    Outbox(#[from] outbox::BadConfig),
    /// Webhooks cannot be taken up.
    #[error(transparent)]
    Webhooks(#[from] webhooks::Error),
    /// Lifecycles cannot be taken up.
    #[error(transparent)]
    Lifecycles(#[from] lifecycles::Error),
    /// What is removed cannot be exported.
    #[error("retention.export: {0}")]
    Export(NotKept),
    /// Orders cannot be taken up.
    #[error(transparent)]
    Orders(#[from] orders::Error),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {why}; choose another address with --listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        why: std::io::Error,
    },
    /// Others could reach it, and nobody needs a key.
    #[error(
        "{0} can be reached by others, and there is no API key: create one first with `backstitch keys create --role \
         admin --name NAME --db …`, or listen on 127.0.0.1"
    )]
    NoKeys(SocketAddr),
    /// Keys cannot be checked.
    #[error(
        "there are API keys in this database, but not the secret they were made with: set `secret`, or \
         BACKSTITCH_SECRET, to the same value as when they were created"
    )]
    NoSecret,
}

/// A server that is listening.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    app: App,
    acceptor: Acceptor,
    open: bool,
}

impl Server {
    /// Opens the database, begins to listen, and takes up the sagas that are under way.
    ///
    /// # Errors
    /// When one of these cannot be done; the message says what to do.
    pub async fn bind(config: Config) -> Result<Self, Error> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        if let Some(capped) = config.capped_calls() {
            let CappedCalls { per_host, share, max_active } = capped;
            let remedy = capped.remedy();
            tracing::warn!(
                per_host,
                share,
                max_active,
                remedy,
                "calls.per_host exceeds a quarter of sagas.max_active"
            );
        }
        let database = Database::open(&config, &clock).await?;
        let secret = server_secret(&database, config.secret.as_ref(), clock.now()).await?;
        let secret = secret.as_ref().map(|secret| secret.as_slice());
        let gate = gate(&config, &database, secret, clock.clone()).await?;
        let listening = |why| Error::Listen { address: config.listen, why };
        let listener = TcpListener::bind(config.listen).await.map_err(listening)?;
        let address = listener.local_addr().map_err(listening)?;
        // Last: from here on sagas run.
        let headers = HeaderStorage::with_secret(secret)?;
        let calls = HttpCaller::new(&config.call_limits(), clock.clone())?.storing_headers(headers.clone());
        let calls = Arc::new(calls);
        let caller: Arc<dyn Caller> = calls.clone();
        let alerts = Arc::new(AlertSink::new(&config.alerts.channels())?);
        let metrics = Metrics::new();
        let topics = topics(&config.outbox, &clock)?.with(ALERTS, Route::to(alerts.clone()));
        let mut retention = config.retention.of_engine();
        retention.archive = archive(&config, &clock)?;
        let options = Options {
            retention,
            caller: Some(caller.clone()),
            products: PRODUCTS.to_vec(),
            other_schemas: vec![&migrations::SCHEMA],
            routes: topics.clone(),
            announced: config.outbox.announced()?,
            observer: Arc::new(metrics.outbox()),
            clock: clock.clone(),
            ..config.engine_options()
        };
        let engine = Engine::open_with(&config.db, options).await?;
        alerts.attach(&engine).await?;
        engine.prune_with(alerts::retention(&engine, config.retention.alerts));
        let asked = &config.orders;
        let orders =
            Orders::open(engine.clone(), asked.services(), asked.timeouts(), asked.rollback()).await?;
        let closing = CancellationToken::new();
        let counters = Arc::new(metrics.webhooks());
        let webhooks =
            Hooks::start(&engine, &config, secret, counters, clock.clone(), closing.clone()).await?;
        let lifecycles = Courses::open(&engine, calls, &config).await?;
        let assembled = routes::assemble();
        let open = gate.is_open(Keys::Current).await.unwrap_or(false);
        let began = clock.now();
        let app = App::new(Parts {
            engine,
            orders,
            webhooks,
            lifecycles,
            topics,
            caller,
            headers,
            clock,
            gate,
            leaves: Leaves::until(closing.clone()),
            access: assembled.access.clone(),
            metrics,
            pulse: Pulse::from(began),
            outcomes: Outcomes::default(),
            readiness: routes::Readiness::default(),
            probes: crate::http::Probes::default(),
            doctor: Doctor::default(),
            events: Broadcast::new(BUFFERED_EVENTS),
            description: assembled.description.clone().into(),
            closing: closing.clone(),
            config,
        });
        let acceptor = Acceptor::new(assembled.into_router(&app), &app.config.limits, closing.clone());
        tokio::spawn(watch_events(app.clone()));
        // Not before somebody listens to what comes of it.
        app.lifecycles.drive(closing).await;
        tokio::spawn(watch_leaves(app.clone()));
        tokio::spawn(doctor::look_now_and_then(app.clone()));
        Ok(Self { listener, address, app, acceptor, open })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether anybody who reaches it may do everything.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// The engine that runs the sagas.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.app.engine
    }

    /// Serves until `stop` is done; then finishes what is under way, for as long as the grace allows, and stops the engine.
    ///
    /// # Errors
    /// When the engine could not be stopped in order; its sagas are taken up by the next process all the same.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), Error> {
        let Self { listener, app, acceptor, .. } = self;
        let grace = app.config.limits.grace;
        let closing = app.closing.clone();
        let mut serving = std::pin::pin!(acceptor.run(listener, grace));
        tokio::select! {
            () = stop => {
                closing.cancel();
                serving.as_mut().await;
            }
            () = serving.as_mut() => {}
        }
        closing.cancel();
        tokio::join!(app.webhooks.stop(grace), app.lifecycles.stop(grace));
        let engine = app.engine.clone();
        drop(app);
        Ok(engine.shutdown().await?)
    }
}

/// Where what is removed goes before it is.
fn archive(config: &Config, clock: &Arc<dyn Clock>) -> Result<Option<Arc<dyn Archive>>, Error> {
    let Some(folder) = &config.retention.export else { return Ok(None) };
    let node = Options::default().node;
    let files = Files::in_folder(Path::new(folder), &node, clock.clone()).map_err(Error::Export)?;
    Ok(Some(Arc::new(files)))
}

/// Where messages go. Where no topic is configured, all go to the log; otherwise the others go nowhere.
fn topics(config: &outbox::Config, clock: &Arc<dyn Clock>) -> Result<Routes, outbox::BadConfig> {
    let none = if config.topics.is_empty() { Routes::default() } else { Routes::none() };
    config
        .topics
        .iter()
        .try_fold(none, |routes, (name, topic)| Ok(routes.with(name, topic.route(name, clock)?)))
}

/// Who is let in. An address that others can reach is opened only where somebody has a key.
async fn gate(
    config: &Config,
    database: &Database,
    secret: Option<&[u8]>,
    clock: Arc<dyn Clock>,
) -> Result<Gate, Error> {
    let can_check = secret.is_some();
    let hasher = secret.map_or_else(Hasher::for_this_process, Hasher::new)?;
    let keyring = Keyring::open(database.clone(), hasher.clone(), clock).await?;
    if !can_check && !keyring.is_empty(Keys::Current).await? {
        return Err(Error::NoSecret);
    }
    let may_be_open = config.listen.ip().is_loopback();
    if !may_be_open && !keyring.has_good_key().await? {
        return Err(Error::NoKeys(config.listen));
    }
    Ok(Gate { keyring, hasher, may_be_open, rates: Rates::new(&config.limits) })
}
