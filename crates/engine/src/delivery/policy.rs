//! What a policy tells the runtime: how to claim, what an attempt is, what its outcome means, how to settle.

use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use backstitch_kernel::Timestamp;
use tokio::time::Instant;

use super::claim::{Ask, Claim, Claimer, LeaseBatch, PartitionPage};
use super::limiter::{Limits, Verdict};
use crate::group_commit::Pace;

/// What tells partitions apart.
pub trait PartitionKey: Clone + Debug + Eq + Hash + Ord + Send + Sync + 'static {}

impl<T: Clone + Debug + Eq + Hash + Ord + Send + Sync + 'static> PartitionKey for T {}

/// How items are claimed.
pub trait ClaimPolicy: Send + Sync + 'static {
    /// What tells partitions apart: a topic, an endpoint.
    type Key: PartitionKey;
    /// A partition with due items, as the store describes it.
    type Partition: Send;
    /// How the receiver of a partition is reached.
    type Route: Send + Sync + 'static;
    /// What is attempted.
    type Item: Send + Sync + 'static;
    /// For whom items are claimed.
    type Claimant: Copy + Send + Sync;
    /// Why the store did not answer.
    type Error: Display + Send;

    /// Called before each claim and each of its pages, and while attempts end: sends a heartbeat where nodes share limits.
    fn prepare(&self) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Partitions with due items after this one, in the order of their keys.
    fn page(
        &self,
        after: Option<&Self::Key>,
    ) -> impl Future<Output = Result<PartitionPage<Self::Key, Self::Partition>, Self::Error>> + Send;

    /// Those of these partitions that have due items.
    fn chosen(
        &self,
        keys: &[Self::Key],
    ) -> impl Future<Output = Result<PartitionPage<Self::Key, Self::Partition>, Self::Error>> + Send;

    /// The key of a partition.
    fn key(&self, partition: &Self::Partition) -> Self::Key;

    /// When the configuration of a partition last changed: that ends its pauses.
    fn changed_at(&self, _: &Self::Partition) -> Option<Timestamp> {
        None
    }

    /// This node's share of the limits of a partition; `None` if it claims nothing of it now.
    fn limits(&self, partition: &Self::Partition) -> Option<Limits>;

    /// How the receiver of a partition is reached; `None` if it cannot be: its items wait.
    fn route(&self, partition: Self::Partition) -> Option<Arc<Self::Route>>;

    /// How long an attempt may take, and how long it is leased.
    fn times(&self, route: &Self::Route, claimant: Self::Claimant) -> AttemptTimes;

    /// Leases items of these partitions, at most as many of each as are asked for.
    fn lease(
        &self,
        asks: &[Ask<Self>],
        claimant: Self::Claimant,
    ) -> impl Future<Output = Result<LeaseBatch<Self::Key, Self::Item>, Self::Error>> + Send;
}

/// How long an attempt may take, and how long its item is leased.
#[derive(Clone, Copy, Debug)]
pub struct AttemptTimes {
    /// An attempt that begins so long before its lease expires ends in time.
    pub timeout: Duration,
    /// From the claim on.
    pub lease: Duration,
}

/// What the runtime does with claimed items.
pub trait DeliveryPolicy: Send + Sync + 'static {
    /// How they are claimed.
    type Claims: ClaimPolicy;
    /// What the receiver answered.
    type Response: Send;
    /// What is written about an attempt.
    type Settlement: Clone + Send + Sync + 'static;

    /// What the runtime claims with. Others may claim with it too.
    fn claimer(&self) -> &Claimer<Self::Claims>;

    /// For whom the runtime claims.
    fn claimant(&self) -> <Self::Claims as ClaimPolicy>::Claimant;

    /// When to poll, and how much to claim at once.
    fn schedule(&self) -> Schedule;

    /// Resolves when there may be items to claim.
    fn woken(&self) -> impl Future<Output = ()> + Send;

    /// Called before each claim: requeues items whose leases have expired.
    fn maintain(&self) -> impl Future<Output = Result<(), <Self::Claims as ClaimPolicy>::Error>> + Send;

    /// Attempts of one partition at once; more that are claimed wait in memory.
    fn attempts_at_once(&self, route: &<Self::Claims as ClaimPolicy>::Route) -> usize;

    /// After how long the runtime drops an attempt.
    fn time_limit(&self, claim: &Claim<Self::Claims>) -> Duration {
        claim.timeout
    }

    /// Makes one attempt.
    fn attempt(&self, claim: &Claim<Self::Claims>) -> impl Future<Output = Self::Response> + Send;

    /// What an attempt means for its item and for its receiver.
    fn judge(
        &self,
        claim: &Claim<Self::Claims>,
        end: AttemptEnd<Self::Response>,
    ) -> Outcome<Self::Settlement>;

    /// Returns an item that no attempt was made for.
    fn give_back(&self, claim: &Claim<Self::Claims>) -> Self::Settlement;

    /// Whether the place that an attempt had is reason enough to claim again.
    fn has_room(&self, _: &Claim<Self::Claims>) -> bool {
        true
    }

    /// Writes what became of items; when this returns, what is not listed is durable.
    fn settle(&self, batch: &[Self::Settlement]) -> impl Future<Output = Unsettled> + Send;

    /// A settlement is durable.
    fn settled(&self, _: &Self::Settlement) {}

    /// A settlement did not become durable while its lease lasted: its item is delivered again.
    fn lost(&self, _: &Self::Settlement) {}

    /// No more is claimed, and all attempts have ended.
    fn leave(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// When to poll, and how much to claim at once.
#[derive(Debug)]
pub struct Schedule {
    /// Items of one claim at most.
    pub batch: usize,
    /// The longest wait between two polls.
    pub poll_interval: Duration,
    /// The wait after a store that did not answer.
    pub store_retry: Duration,
    /// Spaces polls that follow each other at once.
    pub pace: Pace,
    /// Batches of settlements that are written at the same time.
    pub settlers: usize,
    /// A durable result lets items be claimed that wait behind it, so it is a reason to poll.
    pub poll_when_settled: bool,
}

/// How an attempt ended.
#[derive(Debug)]
pub enum AttemptEnd<R> {
    /// With this answer.
    Answered(R),
    /// Not within its time limit.
    TimedOut,
    /// With a panic.
    Panicked,
}

/// What an attempt means.
#[derive(Debug)]
pub struct Outcome<S> {
    /// What is written about it.
    pub settlement: S,
    /// What it shows about the receiver.
    pub verdict: Verdict,
    /// The receiver asked for no attempts for so long.
    pub retry_after: Option<Duration>,
}

/// Settlements of a batch that are not durable, by their place in the batch.
#[derive(Debug, Default)]
pub struct Unsettled {
    /// The database rejects these; the policy has parked them.
    pub rejected: Vec<usize>,
    /// The store did not take these, or did not answer.
    pub failed: Vec<usize>,
    /// Why.
    pub error: Option<String>,
}

impl Unsettled {
    /// The whole batch failed.
    pub fn all(batch: usize, error: &impl Display) -> Self {
        Self { failed: (0..batch).collect(), error: Some(error.to_string()), ..Self::default() }
    }
}

/// What became of an item, until that is durable.
pub(super) struct Finished<S> {
    pub(super) settlement: S,
    /// Until then the item is this node's, by the clock of this process.
    pub(super) lease_until: Instant,
}

impl<S> Finished<S> {
    pub(super) fn is_leased(&self) -> bool {
        Instant::now() < self.lease_until
    }
}
