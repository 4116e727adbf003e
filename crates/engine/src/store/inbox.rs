//! Messages for sagas.

use async_trait::async_trait;
use backstitch_kernel::{SagaId, Timestamp};
use tokio::sync::mpsc;

use super::Error;
use super::nodes::{Epoch, Notice};
use super::sealed::Sealed;
use crate::inbox::{Message, Posted};

/// The inboxes of sagas, and notifications from other processes.
#[async_trait]
pub trait InboxStore: Sealed {
    /// Posts a message to a saga, whichever node owns it.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn post(&self, saga: SagaId, message: &Message, at: Timestamp) -> Result<Posted, Error>;

    /// The sagas of this incarnation that have messages, each with the number of the newest.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn mail(&self, epoch: Epoch) -> Result<Vec<(SagaId, u64)>, Error>;

    /// Subscribes to notifications: messages for sagas, sagas started in a caller's transaction. `None` if the store is not
    /// shared or sends none.
    ///
    /// # Errors
    /// When the store cannot be reached.
    async fn listen(&self) -> Result<Option<mpsc::Receiver<Notice>>, Error> {
        Ok(None)
    }
}
