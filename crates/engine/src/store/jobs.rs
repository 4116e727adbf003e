//! The lease queue, as far as jobs of sagas and lifecycles are concerned; see [`crate::jobs`].

use std::time::Duration;

use async_trait::async_trait;
use backstitch_kernel::{SagaId, Timestamp};

use super::Error;
use super::sealed::Sealed;
use crate::jobs::{Job, LeaseBatch, QueueState, Settled, Settlement, Withdrawal};

/// The lease queue. Jobs are enqueued by the commit that decides them.
#[async_trait]
pub trait JobStore: Sealed {
    /// Leases up to `limit` due jobs of these queues, oldest first; expired leases are returned to the queue
    /// first. The store's clock decides. A job whose last lease expires fails, and its saga gets a message in the same transaction
    /// ([`Job::lost_message`]); a job [of a product](Job::is_of_a_product) is left to the product.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn lease_jobs(&self, queues: &[String], lease: Duration, limit: usize)
    -> Result<LeaseBatch, Error>;

    /// Settles leased jobs, each only if its token is the newest. The messages to their sagas are in the same transaction.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn settle_jobs(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, Error>;

    /// Withdraws a job that is pending or whose lease has expired, and sends its saga a message in the same transaction.
    /// `false`: a worker has leased it, or it has ended.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn withdraw_job(&self, withdrawal: &Withdrawal, at: Timestamp) -> Result<bool, Error>;

    /// A job by its number.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn job(&self, id: i64) -> Result<Option<Job>, Error>;

    /// Whether these queues of a product have jobs, and up to `limit` that have lost their last lease, but for those parked in
    /// this area.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn queue_state(
        &self,
        queues: &[String],
        area: &'static str,
        limit: usize,
    ) -> Result<QueueState, Error>;

    /// Whether a job of this owner is due and not leased.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn has_due_job(&self, owner: SagaId) -> Result<bool, Error>;
}
