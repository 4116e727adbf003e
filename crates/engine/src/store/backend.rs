//! The database behind a store: how it is shared, written to and checked.

use async_trait::async_trait;
use backstitch_kernel::Timestamp;

use super::product::Database;
use super::sealed::Sealed;
use super::{Error, Writers};

/// The database behind a store.
#[async_trait]
pub trait Backend: Sealed {
    /// Whether other processes can use it at the same time. Then only a heartbeat tells which nodes are alive.
    fn is_shared(&self) -> bool {
        false
    }

    /// Access for products that keep their own tables in the database.
    fn database(&self) -> Database<'_>;

    /// Where [`SagaStore::commit`](super::SagaStore::commit) must be called.
    fn writers(&self) -> Writers;

    /// The time by the database's clock, which decides deadlines and timers; `None` if the engine's clock decides them.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn clock(&self) -> Result<Option<Timestamp>, Error> {
        Ok(None)
    }

    /// Checks that the database is still the one that was opened: a file can be deleted or replaced while it is open.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when it is not. Every write is refused then.
    fn check_identity(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Checks that the database answers within a few seconds; with `commits`, also that a small commit becomes durable by
    /// then.
    ///
    /// # Errors
    /// When it does not.
    async fn probe(&self, commits: bool) -> Result<(), Error>;

    /// Moves everything from the write-ahead log into the file, unless another program still reads older pages. Nothing is
    /// lost if that fails.
    async fn put_away(&self) {}
}
