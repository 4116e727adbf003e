//! How the relay claims messages: by topic, each topic as many as it sends quickly.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backstitch_kernel::delivery;
use tokio::time::Instant;

use super::route::Route;
use crate::delivery::limiter::{Limiter, Limits};
use crate::delivery::{Ask, AttemptTimes, ClaimPolicy, LeaseBatch, PartitionPage};
use crate::runtime::Shared;
use crate::store;
use crate::store::outbox::{Expired, Outgoing, Share, TOO_LATE, Waiting};

/// Messages of one topic claimed in advance at most: enough to drown the cost of a sync.
const LARGEST_PREFETCH: usize = 2048;
/// Messages requeued or expired at a time.
const RESCUED_AT_ONCE: usize = 1000;
/// The wait after a poll that found due messages and claimed none, and the shortest interval of rescues.
const SOON: Duration = Duration::from_millis(10);
/// Idle topics are forgotten when there are more than this: publishers name topics.
const TOPICS_KEPT: usize = 256;
/// The adapter in the log for a topic without a route.
const NO_ADAPTER: &str = "none";

/// A topic with a route.
pub(super) struct Topic {
    pub(super) name: Arc<str>,
    pub(super) route: Route,
    pub(super) timeout: Duration,
    /// Messages to have claimed. Grows while the topic sends all of them before the next claim.
    prefetch: AtomicUsize,
}

impl Topic {
    /// Whether so few messages are claimed that more are worth a claim: fewer than attempts at once, or than half of the prefetch.
    pub(super) fn wants_more(&self, claimed: usize) -> bool {
        claimed < self.route.concurrency.max(self.prefetch() / 2 + 1)
    }

    fn prefetch(&self) -> usize {
        self.prefetch.load(Ordering::Relaxed)
    }

    /// It had claimed nothing, and got its whole prefetch.
    fn grow(&self) {
        let larger = (self.prefetch() * 2).min(LARGEST_PREFETCH.max(self.route.concurrency));
        self.prefetch.store(larger, Ordering::Relaxed);
    }

    /// It had claimed more than it could send in time.
    pub(super) fn shrink(&self) {
        self.prefetch.store(self.route.concurrency, Ordering::Relaxed);
    }
}

/// Claims messages by topic.
pub(super) struct OutboxClaims {
    pub(super) shared: Arc<Shared>,
    limiter: Limiter<Arc<str>>,
    topics: Mutex<HashMap<Arc<str>, Arc<Topic>>>,
    rescued: Mutex<Option<Instant>>,
    /// Due messages could not be claimed: they have expired, or their sender never came back. A rescue removes them.
    is_obstructed: AtomicBool,
}

impl OutboxClaims {
    pub(super) fn new(shared: Arc<Shared>, limiter: Limiter<Arc<str>>) -> Self {
        Self {
            shared,
            limiter,
            topics: Mutex::default(),
            rescued: Mutex::default(),
            is_obstructed: AtomicBool::new(false),
        }
    }

    /// Requeues messages whose lease has expired and aborts those that are too old, first of all and then now and then.
    pub(super) async fn rescue(&self) -> Result<(), store::Error> {
        let shortest = self.topics().values().map(|topic| topic.timeout * 2).min();
        let every = (shortest.unwrap_or(Duration::from_secs(60)) / 4).max(self.shared.options.tick);
        let every = if self.is_obstructed.load(Ordering::Relaxed) { SOON } else { every };
        {
            let mut rescued = self.rescued.lock().unwrap_or_else(PoisonError::into_inner);
            if rescued.is_some_and(|at| at.elapsed() < every) {
                return Ok(());
            }
            *rescued = Some(Instant::now());
        }
        let rescued = self.shared.store.rescue_outbox(RESCUED_AT_ONCE).await?;
        // There may be more than there was room for.
        let is_full = rescued.expired.len() >= RESCUED_AT_ONCE || rescued.abandoned >= RESCUED_AT_ONCE as u64;
        self.is_obstructed.store(is_full, Ordering::Relaxed);
        let observer = &self.shared.options.observer;
        if rescued.abandoned > 0 {
            tracing::warn!(
                messages = rescued.abandoned,
                "outbox leases expired; messages sent again, in doubt"
            );
            observer.taken_over(rescued.abandoned);
        }
        for expired in &rescued.expired {
            self.log_expired(expired);
            if expired.uncounted {
                observer.enqueued(&expired.topic, 1);
            }
        }
        if !rescued.expired.is_empty() {
            observer.expired(rescued.expired.len() as u64);
        }
        Ok(())
    }

    /// In the words of every other end of a message.
    fn log_expired(&self, expired: &Expired) {
        let Expired { topic, idempotency_key, attempts, .. } = expired;
        let route = self.shared.options.routes.of(topic);
        let adapter = route.as_ref().map_or(NO_ADAPTER, |route| route.sink.name());
        tracing::warn!(
            %topic, %idempotency_key, status = "aborted", attempts, adapter, last_error_code = delivery::EXPIRED,
            error = TOO_LATE, "outbox message not sent"
        );
    }

    /// A topic that is due; `None` when it has no route.
    fn topic(&self, waiting: &Waiting) -> Option<Arc<Topic>> {
        let mut topics = self.topics();
        if let Some(topic) = topics.get(waiting.topic.as_str()) {
            return Some(topic.clone());
        }
        let route = self.shared.options.routes.of(&waiting.topic)?;
        let timeout = route.timeout.unwrap_or(self.shared.options.send_timeout);
        let prefetch = AtomicUsize::new(route.concurrency);
        let name: Arc<str> = waiting.topic.as_str().into();
        let topic = Arc::new(Topic { name: name.clone(), route, timeout, prefetch });
        topics.insert(name, topic.clone());
        Some(topic)
    }

    fn topics(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<Topic>>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClaimPolicy for OutboxClaims {
    type Key = Arc<str>;
    type Partition = Arc<Topic>;
    type Route = Topic;
    type Item = Outgoing;
    type Claimant = ();
    type Error = store::Error;

    async fn prepare(&self) -> Result<(), store::Error> {
        Ok(())
    }

    async fn page(&self, _: Option<&Arc<str>>) -> Result<PartitionPage<Arc<str>, Arc<Topic>>, store::Error> {
        let waiting = self.shared.store.waiting_topics().await?;
        let (due, later): (Vec<_>, Vec<_>) = waiting.iter().partition(|topic| topic.due_in.is_zero());
        let soon = self.is_obstructed.load(Ordering::Relaxed).then_some(SOON);
        let next_due = later.iter().map(|topic| topic.due_in).chain(soon).min();
        if self.topics().len() > TOPICS_KEPT {
            self.topics().retain(|name, _| self.limiter.held(name) > 0);
        }
        Ok(PartitionPage {
            open: due.into_iter().filter_map(|topic| self.topic(topic)).collect(),
            closed: Vec::new(),
            next: None,
            is_whole: true,
            more: false,
            next_due: next_due.and_then(|wait| Instant::now().checked_add(wait)),
        })
    }

    /// One query gives all topics, so a topic that has just become due never waits for those that are busy.
    async fn chosen(&self, _: &[Arc<str>]) -> Result<PartitionPage<Arc<str>, Arc<Topic>>, store::Error> {
        self.page(None).await
    }

    fn key(&self, topic: &Arc<Topic>) -> Arc<str> {
        topic.name.clone()
    }

    /// Places of a topic are its claimed messages: it claims in advance, since a claim costs as much for one message as for many.
    fn limits(&self, topic: &Arc<Topic>) -> Option<Limits> {
        let claimed = self.limiter.held(&topic.name);
        topic.wants_more(claimed).then(|| Limits { concurrency: topic.prefetch(), rate: None })
    }

    fn route(&self, topic: Arc<Topic>) -> Option<Arc<Topic>> {
        Some(topic)
    }

    fn times(&self, topic: &Topic, (): ()) -> AttemptTimes {
        AttemptTimes { timeout: topic.timeout, lease: topic.timeout * 2 }
    }

    async fn lease(
        &self,
        asks: &[Ask<Self>],
        (): (),
    ) -> Result<LeaseBatch<Arc<str>, Outgoing>, store::Error> {
        let share =
            |ask: &Ask<Self>| Share { topic: ask.partition.to_string(), limit: ask.most, lease: ask.lease };
        let shares: Vec<Share> = asks.iter().map(share).collect();
        let claimed = self.shared.store.claim_outbox(&shares, &self.shared.options.node).await?;
        let mut counts: HashMap<Arc<str>, usize> =
            asks.iter().map(|ask| (ask.partition.clone(), 0)).collect();
        let mut items = Vec::with_capacity(claimed.len());
        for outgoing in claimed {
            if outgoing.uncounted {
                self.shared.options.observer.enqueued(&outgoing.message.topic, 1);
            }
            let Some((key, _)) = counts.get_key_value(outgoing.message.topic.as_str()) else { continue };
            let key = key.clone();
            counts.entry(key.clone()).and_modify(|count| *count += 1);
            items.push((key, outgoing));
        }
        for ask in asks {
            let count = counts.get(&ask.partition).copied().unwrap_or_default();
            // Due messages that cannot be claimed have expired, or are behind others and are put aside by this claim.
            if count == 0 {
                self.is_obstructed.store(true, Ordering::Relaxed);
            }
            // It asked for its whole prefetch, so it had claimed nothing.
            if count == ask.most && count >= ask.route.prefetch() {
                ask.route.grow();
            }
        }
        let again_at = items.is_empty().then(|| Instant::now() + SOON);
        Ok(LeaseBatch { more: !items.is_empty(), items, again_at })
    }
}
