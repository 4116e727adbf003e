//! Outbox messages: published, queried and retried.

use async_trait::async_trait;
use backstitch_kernel::Timestamp;

use super::Error;
use super::outbox::{Kept, Listing, Publication, Published, Retried};
use super::sealed::Sealed;

/// Outbox messages as clients see them.
#[async_trait]
pub trait MessageStore: Sealed {
    /// Writes messages and their idempotency keys in one transaction, each on its own or not at all. The results have the
    /// order of the batch.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn publish(&self, batch: &[Publication], at: Timestamp) -> Result<Vec<Published>, Error>;

    /// A message by its number.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn message(&self, id: i64) -> Result<Option<Kept>, Error>;

    /// The newest message of this topic and idempotency key.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn message_of(&self, topic: &str, key: &str) -> Result<Option<Kept>, Error>;

    /// Messages that match, newest first. Reads along an index.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn messages(&self, listing: &Listing, limit: usize) -> Result<Vec<Kept>, Error>;

    /// Writes an aborted message again as a new one, once. The idempotency key waits for the new message's result.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn retry_message(&self, id: i64, at: Timestamp) -> Result<Retried, Error>;
}
