//! Asking about messages, and for another try.

use crate::engine::Engine;
use crate::error::Error;
use crate::store::outbox::{Kept, Listing, Retried};

impl Engine {
    /// A message as it stands.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn message(&self, id: i64) -> Result<Option<Kept>, Error> {
        Ok(self.shared().store.message(id).await?)
    }

    /// The newest message that a topic keeps under this key.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn message_of(&self, topic: &str, key: &str) -> Result<Option<Kept>, Error> {
        Ok(self.shared().store.message_of(topic, key).await?)
    }

    /// Messages that match, newest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn messages(&self, listing: &Listing, limit: usize) -> Result<Vec<Kept>, Error> {
        Ok(self.shared().store.messages(listing, limit).await?)
    }

    /// Sends an aborted message again, as a new one that stands for it. Asking twice gives the same one.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn retry_message(&self, id: i64) -> Result<Retried, Error> {
        let shared = self.shared();
        let retried = shared.store.retry_message(id, shared.options.clock.now()).await?;
        shared.outbox.wake();
        Ok(retried)
    }
}
