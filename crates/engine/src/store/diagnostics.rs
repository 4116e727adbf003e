//! Diagnostics: counts of sagas, work that may be orphaned, facts about the database.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use backstitch_kernel::Timestamp;

use super::nodes::{Epoch, Known};
use super::sealed::Sealed;
use super::{Counts, Error, InFlight, Summary};

/// What monitoring and the doctor ask a store.
#[async_trait]
pub trait DiagnosticsStore: Sealed {
    /// How many sagas are active, and which definitions that are not among `known` have sagas waiting.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn counts(&self, known: &[Known]) -> Result<Counts, Error>;

    /// Active sagas of this definition, by version, counted up to [a limit](super::COUNTED).
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn in_flight(&self, definition: &str) -> Result<Vec<InFlight>, Error>;

    /// Up to `limit` sagas that no living node owns, and that have been in the same status with nothing due since before this
    /// time, longest first. Sagas that wait for a timer are skipped; of the others a thousand of each kind are looked at.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn stuck(&self, since: Timestamp, limit: usize) -> Result<Vec<Summary>, Error>;

    /// Work that may be orphaned; at most `limit` of each kind.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn survey(&self, limit: usize) -> Result<Survey, Error>;

    /// The database software, its schema and its file; `None` for a database in memory.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn footing(&self) -> Result<Option<Footing>, Error>;
}

/// Work that nobody may be looking after. It is found from one definition, node or queue to the next, so that it costs
/// the same however many sagas there are. How long something lasts is told by the store's own clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Live sagas that are nobody's, due at no time, not paused and without a job, by definition, oldest first: nothing
    /// moves them.
    pub adrift: Vec<Summary>,
    /// Who has live sagas, of which definition.
    pub owners: Vec<Owner>,
    /// Definitions with sagas that are nobody's and due, now or later.
    pub waiting: Vec<Waiting>,
    /// Queues with jobs that somebody has leased: the lease that ends, or ended, first. As many of each kind
    /// ([`Queue::kind`]) as were asked for.
    pub leased: Vec<Queue>,
    /// Queues with jobs that nobody has: the one that is due first. As many of each kind as were asked for.
    pub pending: Vec<Queue>,
}

/// A life of a process that has live sagas of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The definition's name.
    pub definition: String,
    /// The definition's version.
    pub version: u32,
    /// The life.
    pub epoch: Epoch,
    /// What is known of it; nothing where it is over.
    pub heard: Option<Heard>,
}

/// What is known of a life of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// What people call the process.
    pub node: String,
    /// For how long it has been silent beyond its lease: nothing while it lives.
    pub late: Duration,
}

/// A definition with sagas that are nobody's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The definition's name.
    pub definition: String,
    /// The definition's version.
    pub version: u32,
    /// How long the first of them has been due: nothing where none is yet.
    pub late: Duration,
}

/// A queue of jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Its name.
    pub queue: String,
    /// Its first job.
    pub job: i64,
    /// For how long that has been due, or its lease over: nothing where that is still to come.
    pub late: Duration,
}

impl Queue {
    /// What its name begins with: queues of hooks hide none of workers.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.queue.split('/').next().unwrap_or_default()
    }
}

/// What a store stands on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Footing {
    /// What keeps the tables.
    pub software: Software,
    /// The version of the engine's own tables.
    pub schema: SchemaVersion,
    /// The version of the tables of each product, as the database has it.
    pub products: BTreeMap<String, i64>,
    /// What the database's clock shows; nothing where it goes by the program's.
    pub clock: Option<Timestamp>,
    /// The file, where it is one.
    pub file: Option<DatabaseFile>,
}

/// What keeps the tables, with the oldest version that will do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Software {
    /// `SQLite` or `PostgreSQL`.
    pub name: &'static str,
    /// As people write it.
    pub version: String,
    /// As a number that rises with versions.
    pub number: i32,
    /// The oldest that will do, as people write it.
    pub oldest: String,
    /// The same as a number.
    pub oldest_number: i32,
}

/// A version of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemaVersion {
    /// What the database has.
    pub found: i64,
    /// What this program knows.
    pub known: i64,
}

/// A database in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseFile {
    /// Where it is.
    pub path: PathBuf,
    /// How long its write-ahead log is, in bytes.
    pub wal_bytes: u64,
}
