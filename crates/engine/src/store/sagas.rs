//! Decisions about sagas: committed, and read back.

use async_trait::async_trait;
use backstitch_kernel::SagaId;
use backstitch_kernel::saga::Recorded;

use super::sealed::Sealed;
use super::{Commit, Cursor, Error, Filter, LogHead, Page, Stored, Summary, Verdict};

/// Sagas and their logs.
#[async_trait]
pub trait SagaStore: Sealed {
    /// Writes a batch of decisions in one transaction. Each is written whole or not at all, and a decision that is fenced
    /// does not affect the others. The verdicts have the order of the batch. What is applied is durable when this returns.
    ///
    /// # Errors
    /// When the outcome of the whole batch is unknown; read the log again before you assume anything.
    async fn commit(&self, batch: &[Commit]) -> Result<Vec<Verdict>, Error>;

    /// The row, log and inbox of each of these sagas that exists, in no particular order.
    ///
    /// # Errors
    /// When the store cannot be read, or a row is corrupt.
    async fn load(&self, sagas: &[SagaId]) -> Result<Vec<Stored>, Error>;

    /// Up to `limit` events of a saga after number `after`.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn log(&self, saga: SagaId, after: u64, limit: usize) -> Result<Vec<Recorded>, Error>;

    /// The same events, known to be durable, also on a synchronous standby. For a commit whose outcome is unknown.
    ///
    /// # Errors
    /// When the store cannot be read or cannot be written.
    async fn durable_log(&self, saga: SagaId, after: u64, limit: usize) -> Result<Vec<Recorded>, Error>;

    /// The number of the newest event of each of these sagas that exists.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn heads(&self, logs: &[SagaId]) -> Result<Vec<LogHead>, Error>;

    /// Sagas that match, newest first, one page at a time. Reads along an index.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn list(&self, filter: &Filter, cursor: &Cursor) -> Result<Page, Error>;

    /// The row of each of these sagas that exists, in no particular order.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn rows(&self, sagas: &[SagaId]) -> Result<Vec<Summary>, Error>;
}
