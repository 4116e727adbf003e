//! Ownership of sagas: which node executes a saga. It is not a part of the saga's state, so these calls change it without a
//! decision (ADR 16). They change the owner and the due time, and nothing else.

use async_trait::async_trait;
use backstitch_kernel::{SagaId, Timestamp};

use super::Error;
use super::nodes::{AdoptedBatch, Epoch, Known, Node};
use super::sealed::Sealed;

/// A saga that its owner releases.
#[derive(Clone, Copy, Debug)]
pub struct Release {
    /// The saga.
    pub saga: SagaId,
    /// The incarnation that owns it.
    pub epoch: Epoch,
    /// The number of its newest event.
    pub seq: u64,
    /// The number of its newest message. Its messages are consumed.
    pub inbox_seen: u64,
    /// When it is due; without a time it is due with its next message.
    pub wake_at: Option<Timestamp>,
}

/// Which node owns which saga.
#[async_trait]
pub trait OwnershipStore: Sealed {
    /// Adopts up to `limit` sagas of these definitions whose owner is dead, or which have no owner and are due.
    /// Where the owner is dead, `saga.adopted` is appended to the log in the transaction that changes the owner. A saga
    /// without an owner was released by it, and its log stays as it is. A saga whose adoption is rejected is parked
    /// ([`parked::ADOPTION`](super::parked::ADOPTION)).
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn adopt(
        &self,
        node: &Node,
        epoch: Epoch,
        known: &[Known],
        at: Timestamp,
        limit: usize,
    ) -> Result<AdoptedBatch, Error>;

    /// Releases a saga about which nothing was decided. `false`: another node owns it now, or it has a newer event or message,
    /// and nothing is changed.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn release(&self, release: Release) -> Result<bool, Error>;

    /// The active sagas of this incarnation.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn owned(&self, epoch: Epoch) -> Result<Vec<SagaId>, Error>;

    /// When the next saga of these definitions without an owner is due; `None` if none is waiting.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn next_wake(&self, known: &[Known]) -> Result<Option<Timestamp>, Error>;
}
