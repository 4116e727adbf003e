//! A store in one `SQLite` database, for one engine.
//!
//! One connection writes, behind a mutex: decisions on the thread of the engine's committer, everything else on
//! threads that may wait. A few other connections read; in WAL mode they and the writer never wait for each other.
//! An operating system lock beside the file keeps a second engine out. A database in memory has one connection, which
//! works on the calling task.

mod claim_rows;
mod commit;
mod connections;
mod diagnostics;
mod documents;
mod events;
mod fault;
mod file;
mod grouped_insert;
mod identity;
mod inbox;
mod jobs;
mod list;
mod memory;
mod message_rows;
mod messages;
mod nodes;
mod outbox;
mod ownership;
mod parked;
mod retention;
mod sagas;
mod schema;
mod values;
mod write_guard;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;

pub use commit::commit_in;
pub(crate) use documents::definition_in;
pub use events::{EventRow, append_events};
pub use file::WRITER_SETTINGS;
pub use grouped_insert::{GroupedInsert, RowValues};
pub use identity::{OpenedFile, refuse_hard_links};
pub use message_rows::{MessageRow, insert_messages};
pub use messages::publish_in;
pub use schema::{NotMigrated, migrate};
pub use write_guard::allow_guarded_writes;

use super::product::{Database, Schema};
use super::sealed::Sealed;
use super::{Backend, Error, Writers};
use crate::clock::Clock;
use connections::Connections;
use file::Held;

/// A statement of a file in `sql/sqlite`.
macro_rules! sql {
    ($file:ident :: $name:ident) => {
        $crate::sql!(sqlite / $file::$name)
    };
    ($name:literal) => {
        include_str!(concat!("../../../queries/sqlite/", $name, ".sql"))
    };
}
use sql;

/// Sagas in a `SQLite` database: a file, or in memory.
pub struct SqliteStore {
    connections: Arc<Connections>,
    clock: Arc<dyn Clock>,
}

impl SqliteStore {
    /// Opens the file, or makes it, and brings its schema up to date. Due times and leases go by this clock.
    ///
    /// # Errors
    /// [`Error::InUse`] when another engine has the file, [`Error::NewerSchema`] when a newer program wrote it,
    /// [`Error::ReadOnly`] when it cannot be written, [`Error::Refused`] when it is no database.
    pub fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        Self::open_with(path, clock, &[])
    }

    /// The same with the tables of these products.
    ///
    /// # Errors
    /// The same, and when a product's tables cannot be brought up to date.
    pub fn open_with(path: &Path, clock: Arc<dyn Clock>, products: &[&Schema]) -> Result<Self, Error> {
        let connections = Connections::to_file(Held::take(path)?, clock.now())?;
        Self::with_tables_of(products, connections, clock)
    }

    /// Opens a new database in memory, which is gone with this store. Due times and leases go by this clock.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub fn in_memory(clock: Arc<dyn Clock>) -> Result<Self, Error> {
        Self::in_memory_with(clock, &[])
    }

    /// The same with the tables of these products.
    ///
    /// # Errors
    /// When a product's tables cannot be made.
    pub fn in_memory_with(clock: Arc<dyn Clock>, products: &[&Schema]) -> Result<Self, Error> {
        Self::with_tables_of(products, Connections::to_memory()?, clock)
    }

    fn with_tables_of(
        products: &[&Schema],
        connections: Connections,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        for product in products {
            connections.write_here(|connection| Ok(schema::migrate(connection, product, clock.now())?))?;
        }
        Ok(Self { connections: Arc::new(connections), clock })
    }
}

/// For products that have tables of their own in the database.
impl SqliteStore {
    /// Reads: a file on a thread that may block, a database in memory on the calling task.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn read_product<T: Send + 'static>(
        &self,
        work: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        self.connections.read(move |connection| Ok(work(connection)?)).await
    }

    /// Writes in one transaction, durable when this returns. A file is written on a thread that may block.
    ///
    /// # Errors
    /// When the database cannot be written, or the work fails. Nothing is written then.
    pub async fn write_product<T: Send + 'static>(
        &self,
        work: impl FnOnce(&rusqlite::Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let write = move |connection: &rusqlite::Connection| {
            let behavior = rusqlite::TransactionBehavior::Immediate;
            let transaction = rusqlite::Transaction::new_unchecked(connection, behavior)?;
            let done = work(&transaction)?;
            transaction.commit()?;
            Ok(done)
        };
        self.connections.write(write).await
    }
}

impl Sealed for SqliteStore {}

#[async_trait]
impl Backend for SqliteStore {
    fn database(&self) -> Database<'_> {
        Database::Sqlite(self)
    }

    fn writers(&self) -> Writers {
        if self.connections.path().is_some() { Writers::OwnThread } else { Writers::Tasks(1) }
    }

    fn check_identity(&self) -> Result<(), Error> {
        self.connections.check()
    }

    async fn probe(&self, _: bool) -> Result<(), Error> {
        // The store runs in this process: it cannot stop answering alone.
        Ok(())
    }

    async fn put_away(&self) {
        if self.connections.path().is_none() {
            return;
        }
        // What is still in the log beside the file goes into it: whoever keeps the file after this has everything.
        match self.connections.write(|connection| Ok(file::empty_log(connection)?)).await {
            Ok(true) => {}
            Ok(false) => {
                tracing::warn!(
                    "somebody reads the file, so the log beside it could not be emptied: keep both together"
                );
            }
            Err(error) => {
                tracing::warn!(%error, "the log beside the file could not be emptied: keep both together");
            }
        }
    }
}
