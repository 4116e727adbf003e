//! Claims items partition by partition, as far as the limiter has places for them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::limiter::{Limiter, Limits, Permit, RefusalReason};
use super::policy::{AttemptTimes, ClaimPolicy};

/// A page of partitions with due items.
#[derive(Debug)]
pub struct PartitionPage<K, P> {
    /// Those that may be claimed from.
    pub open: Vec<P>,
    /// Those that no item is claimed from.
    pub closed: Vec<K>,
    /// Where the next page begins; `None` after the last one.
    pub next: Option<K>,
    /// These are all, wherever the page was to begin.
    pub is_whole: bool,
    /// There is more to do that no later page shows.
    pub more: bool,
    /// When items become due that are not due yet.
    pub next_due: Option<Instant>,
}

/// Asks for items of one partition.
pub struct Ask<P: ClaimPolicy + ?Sized> {
    /// The partition.
    pub partition: P::Key,
    /// How its receiver is reached.
    pub route: Arc<P::Route>,
    /// Items at most.
    pub most: usize,
    /// How long they are leased.
    pub lease: Duration,
}

/// Items that were leased, each with its partition.
#[derive(Debug)]
pub struct LeaseBatch<K, I> {
    /// The items.
    pub items: Vec<(K, I)>,
    /// There may be more to lease at once.
    pub more: bool,
    /// When to poll again at the latest.
    pub again_at: Option<Instant>,
}

/// An item that this node has leased.
pub struct Claim<P: ClaimPolicy + ?Sized> {
    /// Its partition.
    pub partition: P::Key,
    /// How its receiver is reached.
    pub route: Arc<P::Route>,
    /// The item.
    pub item: P::Item,
    /// How long an attempt may take.
    pub timeout: Duration,
    /// Until then the item is this node's, by the clock of this process.
    pub lease_until: Instant,
}

/// A claim, and the place that its attempt takes.
pub struct Claimed<P: ClaimPolicy + ?Sized> {
    /// The claim.
    pub claim: Claim<P>,
    /// The place.
    pub permit: Permit<P::Key>,
}

impl<P: ClaimPolicy + ?Sized> Claimed<P> {
    /// Whether an attempt that begins now ends before the lease expires. The store may have taken long to answer, and the item
    /// may have waited for its turn.
    #[must_use]
    pub fn is_in_time(&self) -> bool {
        Instant::now() + self.claim.timeout <= self.claim.lease_until
    }
}

/// Which partitions are polled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PollScope<K> {
    /// All that have due items, beginning after the one that was served last.
    All,
    /// Those of these that have due items.
    These(Vec<K>),
}

/// What a poll claimed, and what it showed.
pub struct ClaimBatch<P: ClaimPolicy> {
    /// What was claimed.
    pub claimed: Vec<Claimed<P>>,
    /// What the next poll depends on.
    pub summary: PollSummary<P::Key>,
}

/// What the next poll depends on.
#[derive(Debug)]
pub struct PollSummary<K> {
    /// There may be more to claim at once.
    pub more: bool,
    /// When to poll again at the latest: a partition opens, or an item becomes due.
    pub again_at: Option<Instant>,
    /// Partitions that gave something, or only had no room.
    pub busy: Vec<K>,
    /// There was room enough to poll all that were asked for.
    pub complete: bool,
    /// How many partitions were polled, with those that are closed or other nodes'.
    pub polled: usize,
}

impl<K> Default for PollSummary<K> {
    fn default() -> Self {
        Self { more: false, again_at: None, busy: Vec::new(), complete: false, polled: 0 }
    }
}

impl<K> PollSummary<K> {
    fn look_again_at(&mut self, at: Option<Instant>) {
        self.again_at = self.again_at.into_iter().chain(at).min();
    }
}

/// Claims items for every worker of this process, within the same limits.
pub struct Claimer<P: ClaimPolicy> {
    policy: P,
    limiter: Limiter<P::Key>,
    /// The partition that was served last: the next one is first when there is something to claim again.
    served: Mutex<Option<P::Key>>,
}

impl<P: ClaimPolicy> Claimer<P> {
    /// Claims by this policy, within the limits of this limiter.
    pub fn new(policy: P, limiter: Limiter<P::Key>) -> Self {
        Self { policy, limiter, served: Mutex::new(None) }
    }

    /// Its policy.
    pub fn policy(&self) -> &P {
        &self.policy
    }

    /// Its limiter.
    pub fn limiter(&self) -> &Limiter<P::Key> {
        &self.limiter
    }

    /// Claims up to `most` items.
    ///
    /// # Errors
    /// When the store did not answer before anything was claimed.
    pub async fn claim(
        &self,
        scope: &PollScope<P::Key>,
        most: usize,
        claimant: P::Claimant,
    ) -> Result<ClaimBatch<P>, P::Error> {
        let mut batch = ClaimBatch { claimed: Vec::new(), summary: PollSummary::default() };
        self.policy.prepare().await?;
        let polled = match scope {
            PollScope::All => self.poll_all(most, claimant, &mut batch).await,
            PollScope::These(keys) => self.poll_these(keys, most, claimant, &mut batch).await,
        };
        match polled {
            // What is claimed is attempted all the same.
            Err(error) if !batch.claimed.is_empty() => {
                tracing::warn!(%error, "not all partitions polled; the next poll goes on");
                batch.summary.more = true;
            }
            polled => polled?,
        }
        Ok(batch)
    }

    async fn poll_all(
        &self,
        most: usize,
        claimant: P::Claimant,
        batch: &mut ClaimBatch<P>,
    ) -> Result<(), P::Error> {
        let first = self.served().clone();
        let (mut after, mut has_wrapped) = (first.clone(), first.is_none());
        while batch.claimed.len() < most && self.limiter.free() > 0 {
            // Of very many partitions the shares may have changed since the first page.
            self.policy.prepare().await?;
            let mut page = self.policy.page(after.as_ref()).await?;
            if has_wrapped && let Some(first) = &first {
                // The others had their turn.
                page.open.retain(|partition| self.policy.key(partition) <= *first);
                page.closed.retain(|key| key <= first);
            }
            let (next, is_whole) = (page.next.take(), page.is_whole);
            if let Some(served) = self.claim_page(page, most, claimant, batch).await? {
                *self.served() = Some(served);
            }
            after = match next {
                _ if is_whole => {
                    batch.summary.complete = true;
                    break;
                }
                Some(next) if !has_wrapped || first.as_ref().is_none_or(|first| next < *first) => Some(next),
                None if !has_wrapped => {
                    has_wrapped = true;
                    None
                }
                _ => {
                    batch.summary.complete = true;
                    break;
                }
            };
        }
        Ok(())
    }

    async fn poll_these(
        &self,
        keys: &[P::Key],
        most: usize,
        claimant: P::Claimant,
        batch: &mut ClaimBatch<P>,
    ) -> Result<(), P::Error> {
        if self.limiter.free() > 0 {
            let page = self.policy.chosen(keys).await?;
            self.claim_page(page, most, claimant, batch).await?;
            batch.summary.complete = true;
        }
        Ok(())
    }

    /// Claims from the partitions of a page. Returns the last one that got its turn.
    async fn claim_page(
        &self,
        page: PartitionPage<P::Key, P::Partition>,
        most: usize,
        claimant: P::Claimant,
        batch: &mut ClaimBatch<P>,
    ) -> Result<Option<P::Key>, P::Error> {
        let wanted = most - batch.claimed.len();
        batch.summary.polled += page.open.len() + page.closed.len();
        batch.summary.more |= page.more;
        batch.summary.look_again_at(page.next_due);
        let open: Vec<_> =
            page.open.into_iter().filter_map(|partition| self.open(partition, &mut batch.summary)).collect();
        // Places are taken before it is known how much is due: no partition takes so many that the others of the page get none.
        let share = (self.limiter.free().min(wanted) / open.len().max(1)).max(1);
        let mut held = HashMap::new();
        let (mut asks, mut taken, mut served) = (Vec::new(), 0, None);
        for (key, limits, route) in open {
            if taken >= wanted {
                batch.summary.more = true;
                batch.summary.busy.push(key);
                continue;
            }
            let (permits, refusal) = self.limiter.acquire_up_to(&key, &limits, share.min(wanted - taken));
            batch.summary.look_again_at(refusal.and_then(|refusal| refusal.until));
            let Some(permits) = permits else {
                self.look_again_soon(key, &mut batch.summary);
                continue;
            };
            taken += permits.count();
            let AttemptTimes { timeout, lease } = self.policy.times(&route, claimant);
            let ask = Ask { partition: key.clone(), route: route.clone(), most: permits.count(), lease };
            asks.push(ask);
            // The lease begins here, so that an attempt has ended before anybody else gets its item.
            held.insert(key.clone(), (route, permits, timeout, Instant::now() + lease));
            served = Some(key);
        }
        if asks.is_empty() {
            return Ok(served);
        }
        let leased = self.policy.lease(&asks, claimant).await?;
        batch.summary.more |= leased.more;
        batch.summary.look_again_at(leased.again_at);
        for (partition, item) in leased.items {
            let Some((route, permits, timeout, lease_until)) = held.get_mut(&partition) else { continue };
            let Some(permit) = permits.take() else { continue };
            let (route, timeout, lease_until) = (route.clone(), *timeout, *lease_until);
            let claim = Claim { partition, route, item, timeout, lease_until };
            batch.claimed.push(Claimed { claim, permit });
        }
        for ask in asks {
            let left = held.get(&ask.partition).map_or(0, |(_, permits, ..)| permits.count());
            if left < ask.most {
                batch.summary.busy.push(ask.partition);
            }
        }
        Ok(served)
    }

    /// A partition that could have an attempt now, with its limits and its route. Those that could not are no reason to give the
    /// others less.
    fn open(
        &self,
        partition: P::Partition,
        summary: &mut PollSummary<P::Key>,
    ) -> Option<(P::Key, Limits, Arc<P::Route>)> {
        let limits = self.policy.limits(&partition)?;
        let key = self.policy.key(&partition);
        if let Some(at) = self.policy.changed_at(&partition) {
            self.limiter.config_changed(&key, at);
        }
        if self.limiter.available(&key, &limits) > 0 {
            return Some((key, limits, self.policy.route(partition)?));
        }
        let refusal = self.limiter.refusal(&key);
        summary.look_again_at(refusal.and_then(|refusal| refusal.until));
        if refusal.is_none_or(|refusal| refusal.reason == RefusalReason::Rate) {
            self.look_again_soon(key, summary);
        }
        None
    }

    /// A partition whose receiver works has room again soon. When one has that does not answer is unknown.
    fn look_again_soon(&self, key: P::Key, summary: &mut PollSummary<P::Key>) {
        if self.limiter.is_healthy(&key) {
            summary.busy.push(key);
        }
    }

    fn served(&self) -> MutexGuard<'_, Option<P::Key>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
