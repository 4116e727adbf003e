//! Ownership of sagas: adopted by a node, released by it.

use async_trait::async_trait;
use backstitch_kernel::{SagaId, Timestamp};

use super::Error;
use super::nodes::{AdoptedBatch, Epoch, Known, Node};
use super::sealed::Sealed;

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

    /// Releases a saga that this incarnation owns and decided nothing about since event `seq`. Its messages up to number
    /// `inbox_seen` are consumed, and it is due at `wake_at`, or with its next message. `false`: another node owns it now, or
    /// it has a newer event or message, and nothing is changed.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn let_go(
        &self,
        saga: SagaId,
        epoch: Epoch,
        seq: u64,
        wake_at: Option<Timestamp>,
        inbox_seen: u64,
    ) -> Result<bool, Error>;

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
