//! Every setting of the server, its default, and where it comes from.

mod alerts;
mod doctor;
mod layers;
mod lifecycle;
mod orders;
mod retention;
mod text;
mod webhooks;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use backstitch::{Options, SchemaName};
use backstitch_modules::http_call::Limits as CallLimits;
use backstitch_modules::outbox;
use serde::{Deserialize, Serialize};

pub use alerts::{Alerts, Email, Security, Webhook};
pub use doctor::Doctor;
pub use layers::{Error, Overrides, Setting, settings};
pub use lifecycle::{Lifecycle, Sites};
pub use orders::{Orders, Service};
pub use retention::Retention;
pub use text::Secret;
pub use webhooks::{Egress, Webhooks};

/// All settings. `docs/configuration.md` says what each means to an operator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where connections are accepted.
    pub listen: SocketAddr,
    /// Where everything is kept: `sqlite:PATH` or `postgres://…`.
    pub db: String,
    /// The schema of a `PostgreSQL` database that everything is kept in.
    pub schema: SchemaName,
    /// What API keys and stream tokens are hashed with. A file beside a `SQLite` database takes its place.
    #[serde(with = "text::secret")]
    pub secret: Option<Secret>,
    /// What a client may ask for, and how long it may take.
    pub limits: Limits,
    /// What is written about what happens.
    pub log: Log,
    /// Who else is told.
    pub telemetry: Telemetry,
    /// How sagas are run.
    pub sagas: Sagas,
    /// What calls of declared steps hold themselves to.
    pub calls: Calls,
    /// The services that orders need.
    pub orders: Orders,
    /// Where alerts go.
    pub alerts: Alerts,
    /// How lifecycles are driven.
    pub lifecycle: Lifecycle,
    /// How webhooks are sent.
    pub webhooks: Webhooks,
    /// Where webhooks may go.
    pub egress: Egress,
    /// How long what is over is kept.
    pub retention: Retention,
    /// From when on something is worth a word of the doctor.
    pub doctor: Doctor,
    /// Where messages go, topic by topic: only the file can say it.
    #[serde(skip_serializing)]
    pub outbox: outbox::Config,
}

/// What a client may ask for, and how long it may take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// The largest body of a request.
    pub body_bytes: usize,
    /// How deep JSON may be nested.
    pub json_depth: usize,
    /// For the head of a request, from its first byte; and for the first byte of a new connection.
    #[serde(with = "text::duration")]
    pub header_timeout: Duration,
    /// For the body of a request, as a whole.
    #[serde(with = "text::duration")]
    pub body_timeout: Duration,
    /// How long a connection may stay open with no request on it.
    #[serde(with = "text::duration")]
    pub idle_timeout: Duration,
    /// How long a client may leave an answer unread.
    #[serde(with = "text::duration")]
    pub write_timeout: Duration,
    /// Connections at once; one more is answered with 503.
    pub connections: usize,
    /// Requests a second of one API key, or of one address where no key is sent; one more is answered with 429. 0 stands
    /// for no limit.
    pub requests_per_second: u32,
    /// How many of them may come at once after a rest; 0 stands for as many as in a second.
    pub burst: u32,
    /// How long a shutdown waits for requests and sagas in flight, each.
    #[serde(with = "text::duration")]
    pub grace: Duration,
}

/// What is written about what happens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// For people or for programs.
    pub format: LogFormat,
    /// The least severe level that is written, also by module: `info,backstitch=debug`.
    pub level: String,
}

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One object a line.
    Json,
}

/// Who else is told what happens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Telemetry {
    /// Where traces go: the address of an OTLP collector over HTTP; none when empty.
    #[serde(with = "text::optional")]
    pub otlp_endpoint: Option<String>,
}

/// How sagas are run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sagas {
    /// Sagas under way at once in this process; more wait for their turn.
    pub max_active: usize,
    /// The largest input, and the largest result of a step.
    pub max_payload_bytes: usize,
    /// A process unheard of for this long is taken for dead.
    #[serde(with = "text::duration")]
    pub lease: Duration,
    /// A saga with nothing to do for this long is let go until it is due.
    #[serde(with = "text::duration")]
    pub release_after: Duration,
    /// How often work is looked for that nobody announced.
    #[serde(with = "text::duration")]
    pub tick: Duration,
    /// How long one send of an outgoing message may take.
    #[serde(with = "text::duration")]
    pub send_timeout: Duration,
}

/// What calls of declared steps hold themselves to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Calls {
    /// Calls to one host at once; more wait for room.
    pub per_host: usize,
    /// The longest answer that is read.
    pub answer_bytes: usize,
    /// How long a connection may take to be made.
    #[serde(with = "text::duration")]
    pub connect_timeout: Duration,
}

impl Default for Calls {
    fn default() -> Self {
        let limits = CallLimits::default();
        Self {
            per_host: limits.calls_per_host,
            answer_bytes: limits.answer_bytes,
            connect_timeout: limits.connect_within,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 7420)),
            db: "sqlite:backstitch.db".to_owned(),
            schema: SchemaName::default(),
            secret: None,
            limits: Limits::default(),
            log: Log::default(),
            telemetry: Telemetry::default(),
            sagas: Sagas::default(),
            calls: Calls::default(),
            orders: Orders::default(),
            alerts: Alerts::default(),
            lifecycle: Lifecycle::default(),
            webhooks: Webhooks::default(),
            egress: Egress::default(),
            retention: Retention::default(),
            doctor: Doctor::default(),
            outbox: outbox::Config::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 1024 * 1024,
            json_depth: 64,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(30),
            connections: 16_384,
            requests_per_second: 0,
            burst: 0,
            grace: Duration::from_secs(30),
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self { format: LogFormat::Text, level: "info".to_owned() }
    }
}

impl Default for Sagas {
    fn default() -> Self {
        let engine = Options::default();
        Self {
            max_active: engine.max_active,
            max_payload_bytes: engine.max_payload,
            lease: engine.lease,
            release_after: engine.release_after,
            tick: engine.tick,
            send_timeout: engine.send_timeout,
        }
    }
}

/// A limit on calls that the slots of sagas do not allow for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CappedCalls {
    /// `calls.per_host`.
    pub per_host: usize,
    /// How many calls of sagas a host gets at once instead; see [`Options::host_share`].
    pub share: usize,
    /// `sagas.max_active`.
    pub max_active: usize,
}

impl CappedCalls {
    /// What to set instead.
    #[must_use]
    pub fn remedy(self) -> String {
        let Self { per_host, share, .. } = self;
        let enough = per_host.saturating_mul(4);
        format!("set sagas.max_active to {enough} or more, or calls.per_host to {share} or less")
    }
}

impl Config {
    /// Whether `sagas.max_active` allows for fewer calls to a host than `calls.per_host`.
    #[must_use]
    pub fn capped_calls(&self) -> Option<CappedCalls> {
        let (per_host, share) = (self.calls.per_host, self.engine_options().host_share());
        let max_active = self.sagas.max_active;
        (per_host > share).then_some(CappedCalls { per_host, share, max_active })
    }

    /// The engine's settings among them.
    #[must_use]
    pub fn engine_options(&self) -> Options {
        Options {
            schema: self.schema.clone(),
            max_active: self.sagas.max_active,
            max_payload: self.sagas.max_payload_bytes,
            lease: self.sagas.lease,
            release_after: self.sagas.release_after,
            tick: self.sagas.tick,
            send_timeout: self.sagas.send_timeout,
            grace: self.limits.grace,
            retention: self.retention.of_engine(),
            ..Options::default()
        }
    }

    /// What calls hold themselves to.
    #[must_use]
    pub fn call_limits(&self) -> CallLimits {
        CallLimits {
            calls_per_host: self.calls.per_host,
            answer_bytes: self.calls.answer_bytes,
            // What steps pass on is held to what everybody else may send.
            answer_depth: self.limits.json_depth,
            connect_within: self.calls.connect_timeout,
        }
    }

    /// Refuses what could not work.
    fn check(&self) -> Result<(), Error> {
        let limits = &self.limits;
        let mut mistakes = Vec::new();
        for (name, value) in [
            ("limits.body_bytes", limits.body_bytes),
            ("limits.json_depth", limits.json_depth),
            ("limits.connections", limits.connections),
            ("calls.per_host", self.calls.per_host),
            ("calls.answer_bytes", self.calls.answer_bytes),
        ] {
            if value == 0 {
                mistakes.push(format!("{name} must be at least 1"));
            }
        }
        for (name, value) in [
            ("limits.header_timeout", limits.header_timeout),
            ("limits.body_timeout", limits.body_timeout),
            ("limits.idle_timeout", limits.idle_timeout),
            ("limits.write_timeout", limits.write_timeout),
        ] {
            if value.is_zero() {
                mistakes.push(format!("{name} must be longer than nothing"));
            }
        }
        mistakes.extend(self.orders.mistakes());
        mistakes.extend(self.alerts.mistakes());
        mistakes.extend(self.lifecycle.mistakes());
        mistakes.extend(self.webhooks.mistakes());
        mistakes.extend(self.egress.mistakes());
        mistakes.extend(self.retention.mistakes());
        mistakes.extend(self.doctor.mistakes());
        mistakes.extend(self.outbox.check().err().into_iter().flat_map(|bad| bad.mistakes));
        if self.secret.as_ref().is_some_and(|secret| secret.len() < Secret::SHORTEST) {
            mistakes.push(format!(
                "secret must have at least {} characters: make one with `openssl rand -base64 32`",
                Secret::SHORTEST
            ));
        }
        if mistakes.is_empty() { Ok(()) } else { Err(Error::Mistaken(mistakes.join("; "))) }
    }
}
