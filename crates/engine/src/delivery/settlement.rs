//! Settles finished items in batches, and keeps each until it is durable.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::policy::{DeliveryPolicy, Finished, Schedule, Unsettled};

/// Settlements of one batch at most.
pub(super) const MAX_BATCH: usize = 4096;
/// The wait after a store that did not take a batch.
const PAUSE: Duration = Duration::from_millis(250);
/// The wait before rejected settlements are tried again: each try splits the batch that they are in.
const PAUSE_AFTER_REJECTION: Duration = Duration::from_secs(1);

/// How many finished items are not durable, as the claiming side sees it.
#[derive(Default)]
pub(super) struct Backlog(AtomicUsize);

impl Backlog {
    /// Whether so many are kept that nothing more should be attempted: what never gets durable is attempted again.
    pub(super) fn is_full(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= MAX_BATCH
    }

    pub(super) fn add(&self, items: usize) {
        self.0.fetch_add(items, Ordering::Relaxed);
    }

    fn remove(&self, items: usize) {
        self.0.fetch_sub(items, Ordering::Relaxed);
    }
}

/// Finished items that are not durable yet. The store heeds a settlement only under the newest lease of its item, so it may be
/// written as often as needed.
pub(super) struct Settling<P: DeliveryPolicy> {
    policy: Arc<P>,
    finished: mpsc::UnboundedReceiver<Finished<P::Settlement>>,
    backlog: Arc<Backlog>,
    /// Told when there may be items to claim.
    claimable: Arc<Notify>,
    waiting: Vec<Finished<P::Settlement>>,
    /// When to try again after the store did not answer.
    again_at: Option<Instant>,
    /// Settlements that the database rejects: a message that arrived is not sent again while its lease lasts.
    rejected: Vec<Finished<P::Settlement>>,
    /// When to try these again.
    rejected_again_at: Option<Instant>,
}

impl<P: DeliveryPolicy> Settling<P> {
    pub(super) fn new(
        policy: Arc<P>,
        finished: mpsc::UnboundedReceiver<Finished<P::Settlement>>,
        backlog: Arc<Backlog>,
        claimable: Arc<Notify>,
    ) -> Self {
        Self {
            policy,
            finished,
            backlog,
            claimable,
            waiting: Vec::new(),
            again_at: None,
            rejected: Vec::new(),
            rejected_again_at: None,
        }
    }

    /// Settles until nothing more comes and all of it is durable, or its lease has expired. Rejected settlements are left then: a
    /// shutdown does not wait for a repair.
    pub(super) async fn run(mut self) {
        let Schedule { settlers, poll_when_settled, .. } = self.policy.schedule();
        let settlers = settlers.max(1);
        let mut in_flight = FuturesUnordered::new();
        let mut is_open = true;
        while is_open || !self.waiting.is_empty() || !in_flight.is_empty() {
            self.take_rejected();
            let is_paused = self.again_at.is_some_and(|at| Instant::now() < at);
            while !is_paused && in_flight.len() < settlers && !self.waiting.is_empty() {
                self.again_at = None;
                let size = self.waiting.len().min(MAX_BATCH);
                in_flight.push(settle(self.policy.clone(), self.waiting.drain(..size).collect()));
            }
            let again_at = self.again_at.into_iter().chain(self.rejected_again_at).min();
            tokio::select! {
                Some((batch, unsettled)) = in_flight.next() => {
                    if self.learn(batch, unsettled) > 0 && poll_when_settled {
                        self.claimable.notify_one();
                    }
                }
                count = self.finished.recv_many(&mut self.waiting, MAX_BATCH), if is_open => {
                    is_open = count > 0;
                }
                () = until(again_at), if again_at.is_some() => {}
            }
        }
    }

    /// Tries rejected settlements again whose time has come.
    fn take_rejected(&mut self) {
        if self.rejected_again_at.is_none_or(|at| Instant::now() < at) {
            return;
        }
        self.rejected_again_at = None;
        let rejected = std::mem::take(&mut self.rejected);
        let (leased, lost): (Vec<_>, Vec<_>) = rejected.into_iter().partition(Finished::is_leased);
        self.forget(&lost);
        self.backlog.add(leased.len());
        self.waiting.extend(leased);
    }

    /// Returns how many of a batch are durable.
    fn learn(&mut self, batch: Vec<Finished<P::Settlement>>, unsettled: Unsettled) -> usize {
        let size = batch.len();
        let mut batch: Vec<_> = batch.into_iter().map(Some).collect();
        let mut take = |places: Vec<usize>| {
            let taken = places.into_iter().filter_map(|place| batch.get_mut(place)?.take());
            taken.collect::<Vec<_>>()
        };
        let (rejected, failed) = (take(unsettled.rejected), take(unsettled.failed));
        let durable = batch.into_iter().flatten();
        let durable = durable.map(|finished| self.policy.settled(&finished.settlement)).count();
        self.rejected.extend(rejected);
        if !self.rejected.is_empty() && self.rejected_again_at.is_none() {
            self.rejected_again_at = Some(Instant::now() + PAUSE_AFTER_REJECTION);
        }
        self.backlog.remove(size);
        if !failed.is_empty() {
            self.keep(failed, unsettled.error.as_deref().unwrap_or_default());
        }
        durable
    }

    fn keep(&mut self, failed: Vec<Finished<P::Settlement>>, error: &str) {
        let (kept, lost): (Vec<_>, Vec<_>) = failed.into_iter().partition(Finished::is_leased);
        if !kept.is_empty() {
            tracing::warn!(%error, items = kept.len(), "results of attempts not durable yet; tried again");
            self.again_at = Some(Instant::now() + PAUSE);
        }
        if !lost.is_empty() {
            tracing::warn!(%error, items = lost.len(), "results of attempts not durable in time; attempted again");
            self.forget(&lost);
        }
        self.backlog.add(kept.len());
        self.waiting.extend(kept);
    }

    fn forget(&self, lost: &[Finished<P::Settlement>]) {
        for finished in lost {
            self.policy.lost(&finished.settlement);
        }
    }
}

async fn settle<P: DeliveryPolicy>(
    policy: Arc<P>,
    batch: Vec<Finished<P::Settlement>>,
) -> (Vec<Finished<P::Settlement>>, Unsettled) {
    let settlements: Vec<_> = batch.iter().map(|finished| finished.settlement.clone()).collect();
    let unsettled = policy.settle(&settlements).await;
    (batch, unsettled)
}

async fn until(at: Option<Instant>) {
    if let Some(at) = at {
        tokio::time::sleep_until(at).await;
    }
}
