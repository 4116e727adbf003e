//! What every request can reach.

use std::ops::Deref;
use std::sync::Arc;

use backstitch::clock::Clock;
use backstitch::outbox::Routes;
use backstitch::watch::Broadcast;
use backstitch::{Caller, Engine};
use backstitch_modules::http_call::HeaderStorage;
use backstitch_modules::orders::Orders;
use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use crate::auth::{Gate, Leaves, Table};
use crate::config::Config;
use crate::console::{Outcomes, Pulse};
use crate::doctor::Doctor;
use crate::http::Probes;
use crate::lifecycles::Courses;
use crate::routes::Readiness;
use crate::telemetry::Metrics;
use crate::webhooks::Hooks;

/// A handle to everything; cloning it is cheap.
#[derive(Clone)]
pub(crate) struct App(Arc<Parts>);

/// Everything a request can reach.
pub(crate) struct Parts {
    pub(crate) engine: Engine,
    pub(crate) orders: Orders,
    pub(crate) webhooks: Hooks,
    pub(crate) lifecycles: Courses,
    /// Where messages go.
    pub(crate) topics: Routes,
    /// Performs the calls of declared sagas.
    pub(crate) caller: Arc<dyn Caller>,
    /// How it stores the values of headers.
    pub(crate) headers: HeaderStorage,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) config: Config,
    pub(crate) gate: Gate,
    /// Whoever stays for long.
    pub(crate) leaves: Leaves,
    pub(crate) access: Table,
    pub(crate) metrics: Metrics,
    /// What the last hour was like.
    pub(crate) pulse: Pulse,
    /// What came of forms that are taken once.
    pub(crate) outcomes: Outcomes,
    /// What `/health/ready` knows.
    pub(crate) readiness: Readiness,
    /// Whether the database answers requests that wait for it.
    pub(crate) probes: Probes,
    /// Looks for what is wrong.
    pub(crate) doctor: Doctor,
    /// Every event, encoded once for all subscribers.
    pub(crate) events: Broadcast<Bytes>,
    /// What `/openapi.json` answers.
    pub(crate) description: Bytes,
    /// Set when the server shuts down: streams and long waits end.
    pub(crate) closing: CancellationToken,
}

impl App {
    pub(crate) fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}
