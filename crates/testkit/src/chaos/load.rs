//! The load: every start follows from its key, so it can be repeated by its key.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use backstitch::outbox::Routes;
use backstitch::store::Store;
use backstitch::{Engine, Error, Options, SagaId};

use super::ledger::Ledger;
use super::messages::FileSink;
use super::sagas::{self, NAMES, Order};

/// A repeatable start: the part of the key after the last dash selects the saga.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The idempotency key, and the correlation id.
    pub key: String,
    /// The definition.
    pub definition: &'static str,
    /// The input.
    pub order: Order,
}

impl Request {
    /// Start number `n` of a caller.
    #[must_use]
    pub fn numbered(caller: &str, n: u64) -> Self {
        let definition = NAMES[usize::try_from(n % NAMES.len() as u64).unwrap_or(0)];
        Self { key: format!("{caller}-{n}"), definition, order: Order { n } }
    }

    /// The start of this key.
    #[must_use]
    pub fn of(key: &str) -> Option<Self> {
        let (caller, n) = key.rsplit_once('-')?;
        Some(Self::numbered(caller, n.parse().ok()?))
    }

    /// Starts it, or finds the earlier start.
    ///
    /// # Errors
    /// When the engine refuses it.
    pub async fn start(&self, engine: &Engine) -> Result<SagaId, Error> {
        let starting = engine.start(self.definition, &self.order);
        Ok(starting.key(&self.key).correlation_id(&self.key).await?.id())
    }
}

/// Options with short leases and send times, and all files in this directory.
///
/// # Errors
/// When the files cannot be opened.
pub fn options(folder: &Path, name: &str, lease: Duration) -> std::io::Result<Options> {
    Ok(Options {
        node: name.to_owned(),
        lease,
        tick: Duration::from_millis(100),
        grace: Duration::from_secs(5),
        send_timeout: Duration::from_millis(500),
        routes: Routes::all_to(Arc::new(FileSink::open(folder)?)),
        ..Options::default()
    })
}

/// An engine on this store with all sagas of [`sagas`].
///
/// # Errors
/// When the store or the files in the directory cannot be written.
pub async fn engine(
    store: Arc<dyn Store>,
    folder: &Path,
    name: &str,
    lease: Duration,
) -> Result<Engine, Box<dyn std::error::Error + Send + Sync>> {
    engine_after(store, folder, name, lease, |_| Ok(())).await
}

/// The same; `prepare` sees the engine before it has a saga to execute.
///
/// # Errors
/// When the engine cannot be opened, or `prepare` fails.
pub async fn engine_after(
    store: Arc<dyn Store>,
    folder: &Path,
    name: &str,
    lease: Duration,
    prepare: impl FnOnce(&Engine) -> Result<(), Box<dyn std::error::Error + Send + Sync>>,
) -> Result<Engine, Box<dyn std::error::Error + Send + Sync>> {
    let ledger = Arc::new(Ledger::open(folder, name)?);
    let engine = Engine::on_store(store, options(folder, name, lease)?).await?;
    prepare(&engine)?;
    for saga in sagas::all(&ledger)? {
        engine.register(saga)?;
    }
    Ok(engine)
}

/// The store at an address of either kind.
///
/// # Errors
/// When it cannot be opened.
pub async fn store(address: &str) -> Result<Arc<dyn Store>, backstitch::store::Error> {
    use backstitch::clock::SystemClock;
    use backstitch::store::{postgres::PostgresStore, sqlite::SqliteStore};
    match address.strip_prefix("sqlite:") {
        Some(path) => Ok(Arc::new(SqliteStore::open(Path::new(path), Arc::new(SystemClock))?)),
        None => Ok(Arc::new(PostgresStore::connect(address).await?)),
    }
}
