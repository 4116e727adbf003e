//! The delivery runtime: polls, claims, attempts, settles.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::claim::{Claimed, PollScope, PollSummary};
use super::partition_queue::PartitionQueue;
use super::policy::{AttemptEnd, ClaimPolicy, DeliveryPolicy, Finished, Outcome, Schedule};
use super::poll_scheduler::PollScheduler;
use super::settlement::{Backlog, Settling};
use crate::runtime::catch_panic::{self, Ended};

/// Idle partitions are forgotten when there are more queues than this: publishers name partitions.
const QUEUES_KEPT: usize = 256;
/// The interval of heartbeats while attempts end.
const HEARTBEAT: Duration = Duration::from_secs(1);

type Key<P> = <<P as DeliveryPolicy>::Claims as ClaimPolicy>::Key;
type StoreError<P> = <<P as DeliveryPolicy>::Claims as ClaimPolicy>::Error;

/// Delivers by a policy for as long as it runs.
pub struct DeliveryRuntime<P: DeliveryPolicy> {
    policy: Arc<P>,
    tasks: TaskTracker,
}

impl<P: DeliveryPolicy> DeliveryRuntime<P> {
    /// Delivers by this policy.
    pub fn new(policy: Arc<P>) -> Self {
        Self { policy, tasks: TaskTracker::new() }
    }

    /// Its attempts hold tokens of `tasks`.
    pub(crate) fn tracked_by(self, tasks: TaskTracker) -> Self {
        Self { tasks, ..self }
    }

    /// Delivers until `closing`; then ends: items without an attempt are given back, attempts end, and every result becomes
    /// durable. Dropped before that, it leaves its items to be delivered again once their leases have expired.
    pub async fn run(&self, closing: impl Future<Output = ()>) {
        let (finished, receiver) = mpsc::unbounded_channel();
        let (claimable, backlog) = (Arc::new(Notify::new()), Arc::new(Backlog::default()));
        let settling = Settling::new(self.policy.clone(), receiver, backlog.clone(), claimable.clone());
        let workers = Workers {
            policy: self.policy.clone(),
            finished,
            claimable,
            backlog,
            is_closing: AtomicBool::new(false),
        };
        let claiming = Claiming {
            runtime: self,
            workers: Arc::new(workers),
            queues: HashMap::new(),
            running: JoinSet::new(),
        };
        tokio::join!(claiming.run(closing), settling.run());
        self.policy.leave().await;
    }
}

/// Claims items and starts workers for them.
struct Claiming<'a, P: DeliveryPolicy> {
    runtime: &'a DeliveryRuntime<P>,
    workers: Arc<Workers<P>>,
    queues: HashMap<Key<P>, Arc<PartitionQueue<P::Claims>>>,
    running: JoinSet<()>,
}

impl<P: DeliveryPolicy> Claiming<'_, P> {
    async fn run(mut self, closing: impl Future<Output = ()>) {
        let mut closing = std::pin::pin!(closing);
        let policy = &self.runtime.policy;
        let Schedule { batch, poll_interval, store_retry, pace, .. } = policy.schedule();
        let workers = self.workers.clone();
        let mut scheduler = PollScheduler::new(poll_interval);
        loop {
            while self.running.try_join_next().is_some() {}
            // Registered before the poll, so that no wake-up is missed.
            let (woken, claimable) = (policy.woken(), workers.claimable.notified());
            let began = Instant::now();
            let scope = scheduler.next();
            let wait = match self.poll(&scope, batch).await {
                Ok(poll) => scheduler.learn(&scope, &poll),
                Err(error) => {
                    tracing::warn!(%error, "delivery waits for the store");
                    store_retry
                }
            };
            pace.record(began);
            let next = async {
                tokio::select! {
                    () = woken => {}
                    () = claimable => {}
                    () = tokio::time::sleep(wait) => {}
                }
                tokio::time::sleep_until(pace.next(began)).await;
            };
            tokio::select! {
                biased;
                () = &mut closing => break,
                () = next => {}
            }
        }
        self.finish().await;
    }

    async fn poll(
        &mut self,
        scope: &PollScope<Key<P>>,
        batch: usize,
    ) -> Result<PollSummary<Key<P>>, StoreError<P>> {
        let policy = &self.runtime.policy;
        if self.workers.backlog.is_full() {
            // What is attempted keeps its share of the limits.
            policy.claimer().policy().prepare().await?;
            return Ok(PollSummary::default());
        }
        policy.maintain().await?;
        let batch = policy.claimer().claim(scope, batch, policy.claimant()).await?;
        if self.queues.len() > QUEUES_KEPT {
            self.queues.retain(|_, queue| !queue.is_idle());
        }
        for claimed in batch.claimed {
            let at_once = policy.attempts_at_once(&claimed.claim.route);
            let queue = self.queues.entry(claimed.claim.partition.clone()).or_default();
            if let Some(claimed) = queue.add(claimed, at_once) {
                let work = self.workers.clone().work(queue.clone(), claimed);
                self.running.spawn(self.runtime.tasks.track_future(work));
            }
        }
        Ok(batch.summary)
    }

    /// Lets attempts end. Until then this node keeps its share of the limits.
    async fn finish(mut self) {
        self.workers.is_closing.store(true, Ordering::Relaxed);
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        while !self.running.is_empty() {
            tokio::select! {
                _ = self.running.join_next() => {}
                _ = heartbeat.tick() => {
                    if let Err(error) = self.runtime.policy.claimer().policy().prepare().await {
                        tracing::warn!(%error, "heartbeat failed; other nodes may take this one's share");
                    }
                }
            }
        }
    }
}

/// What all workers of a runtime share.
struct Workers<P: DeliveryPolicy> {
    policy: Arc<P>,
    finished: mpsc::UnboundedSender<Finished<P::Settlement>>,
    /// There may be items to claim: a place is free, or an item no longer waits behind another.
    claimable: Arc<Notify>,
    backlog: Arc<Backlog>,
    is_closing: AtomicBool,
}

impl<P: DeliveryPolicy> Workers<P> {
    /// Attempts this item, and then those that wait in its queue.
    async fn work(self: Arc<Self>, queue: Arc<PartitionQueue<P::Claims>>, first: Claimed<P::Claims>) {
        let mut next = Some(first);
        while let Some(claimed) = next {
            self.attempt(claimed).await;
            // A receiver that answers at once would keep a thread from everything else.
            tokio::task::coop::consume_budget().await;
            next = queue.next();
        }
    }

    async fn attempt(&self, claimed: Claimed<P::Claims>) {
        let is_in_time = claimed.is_in_time() && !self.is_closing.load(Ordering::Relaxed);
        let Claimed { claim, permit } = claimed;
        let settlement = if is_in_time {
            let attempt = async { self.policy.attempt(&claim).await };
            let end = match catch_panic::run(self.policy.time_limit(&claim), attempt).await {
                Ended::Answered(response) => AttemptEnd::Answered(response),
                Ended::TimedOut => AttemptEnd::TimedOut,
                Ended::Panicked(_) => AttemptEnd::Panicked,
            };
            let Outcome { settlement, verdict, retry_after } = self.policy.judge(&claim, end);
            permit.release(verdict, retry_after);
            settlement
        } else {
            drop(permit);
            self.policy.give_back(&claim)
        };
        self.backlog.add(1);
        // A runtime that has gone leaves the item to its lease.
        let _ = self.finished.send(Finished { settlement, lease_until: claim.lease_until });
        if self.policy.has_room(&claim) {
            self.claimable.notify_one();
        }
    }
}
