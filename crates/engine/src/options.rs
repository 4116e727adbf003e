//! What can be set about an engine.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, Ids, RandomIds, SystemClock};
use crate::declared::Caller;
use crate::defaults::Defaults;
use crate::error::Error;
use crate::outbox::{Announced, Nobody, Observer, Routes};
use crate::retention::Retention;
use crate::store::SchemaName;
use crate::store::product::Schema;

/// No time in the settings makes sense beyond a day.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Settings of an engine. The defaults are good for most.
///
/// ```
/// use backstitch::{Engine, Options, secs};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), backstitch::Error> {
/// let options = Options { max_active: 100, grace: secs(5), ..Options::default() };
/// let engine = Engine::in_memory_with(options).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Options {
    /// What this process is called in logs.
    pub node: String,
    /// How many sagas run attempts at once; more wait, durably, for their turn. A saga that waits for a host, a step's
    /// limit, a worker or a time counts for none of them. As many may wait in memory; of those beyond only a small
    /// record is kept. Calls to one host get a part of it: see [`Self::host_share`].
    pub max_active: usize,
    /// The largest input, and the largest result of a step, in bytes of JSON.
    pub max_payload: usize,
    /// A process unheard of for this long is taken for dead and its sagas are taken over.
    pub lease: Duration,
    /// How long [`Engine::shutdown`](crate::Engine::shutdown) waits for what is in flight.
    pub grace: Duration,
    /// A saga with nothing to do for this long is let go until it is due.
    pub release_after: Duration,
    /// How often work is looked for that nobody announced.
    pub tick: Duration,
    /// How long one send of an outgoing message may take. A message whose sender went away is sent again by somebody
    /// else after twice this.
    pub send_timeout: Duration,
    /// For what sagas in Rust and their steps do not say.
    pub defaults: Defaults,
    /// Products that keep tables of their own beside the engine's.
    pub products: Vec<&'static Schema>,
    /// The schema of a `PostgreSQL` database that the engine lives in.
    pub schema: SchemaName,
    /// Tables beside them that the program brings up to date itself. On `PostgreSQL` a version of them whose data this
    /// program cannot read shuts its node out.
    pub other_schemas: Vec<&'static Schema>,
    /// What performs the calls of declared sagas; without one they wait for a node that has it.
    pub caller: Option<Arc<dyn Caller>>,
    /// Where outgoing messages go: to the log, unless told.
    pub routes: Routes,
    /// Which events of sagas are published, to the topic [`SAGAS`](crate::store::outbox::SAGAS): none, unless told.
    pub announced: Announced,
    /// How long what is over is kept: for ever, unless told.
    pub retention: Retention,
    /// Who counts what becomes of messages.
    pub observer: Arc<dyn Observer>,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where saga ids come from.
    pub ids: Arc<dyn Ids>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            node: format!("node-{}", std::process::id()),
            max_active: 10_000,
            max_payload: 256 * 1024,
            lease: Duration::from_secs(10),
            grace: Duration::from_secs(30),
            release_after: Duration::from_secs(60),
            tick: Duration::from_secs(1),
            send_timeout: Duration::from_secs(30),
            defaults: Defaults::default(),
            products: Vec::new(),
            schema: SchemaName::default(),
            other_schemas: Vec::new(),
            caller: None,
            routes: Routes::default(),
            announced: Announced::default(),
            retention: Retention::default(),
            observer: Arc::new(Nobody),
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds::default()),
        }
    }
}

impl Options {
    /// How many actions of declared sagas call one host at once at most, and how many compensations beside them: a quarter of
    /// [`Self::max_active`] each, whatever limit the [`Caller`] gives the host. So a host that never answers leaves half of the
    /// slots to others.
    #[must_use]
    pub fn host_share(&self) -> usize {
        (self.max_active / 4).max(1)
    }

    /// Refuses what could not work.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let most = tokio::sync::Semaphore::MAX_PERMITS;
        let mut mistakes = Vec::new();
        if self.max_active == 0 || self.max_active > most {
            mistakes.push(format!("max_active must be 1 to {most}"));
        }
        for (name, value, least) in [
            ("lease", self.lease, Duration::from_millis(100)),
            ("tick", self.tick, Duration::from_millis(1)),
            ("send_timeout", self.send_timeout, Duration::from_millis(1)),
            ("grace", self.grace, Duration::ZERO),
            ("release_after", self.release_after, Duration::ZERO),
        ] {
            if value < least || value > LONGEST {
                mistakes.push(format!("{name} must be {least:?} to {LONGEST:?}"));
            }
        }
        mistakes.extend(self.defaults.mistakes());
        mistakes.extend(self.routes.mistakes());
        mistakes.extend(self.retention.mistakes());
        if mistakes.is_empty() { Ok(()) } else { Err(Error::BadOptions(mistakes.join("; "))) }
    }
}
