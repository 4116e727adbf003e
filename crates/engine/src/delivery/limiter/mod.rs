//! Limits how many attempts are made for each partition, and when.
//!
//! A partition is whatever has a receiver of its own: a topic, an endpoint. Each has a concurrency, a rate, and a circuit breaker
//! that pauses it while its receiver fails or asks for a pause. All partitions share the limiter's places. When these grow
//! scarce, the last ones are for receivers that work, and a partition with more than a fair share gets no more. A limiter
//! only delays attempts: it fails and loses nothing.
//!
//! A limiter is one process's. Where several processes share a limit, each gives its limiter only its
//! [share](super::membership) of it.

mod breaker;
mod fair_share;
mod partition;
mod rate;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backstitch_kernel::Timestamp;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::PartitionKey;
use breaker::Ticket;
use fair_share::{Asking, Taken};
use partition::{PartitionState, Refused};

/// Idle partitions are removed when there are more than this.
const MANY: usize = 1024;
/// The shortest interval between two searches for idle partitions.
const SWEPT_EVERY: Duration = Duration::from_secs(60);
/// The shortest interval between two searches for partitions that are silent.
const DOUBTED_EVERY: Duration = Duration::from_secs(1);

/// The limits of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Attempts at once.
    pub concurrency: usize,
    /// Attempts in a time, if that is limited.
    pub rate: Option<Rate>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { concurrency: 64, rate: None }
    }
}

/// How many attempts in a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// So many, at once after a pause and evenly spread otherwise.
    pub requests: NonZeroU32,
    /// In this time.
    pub every: Duration,
}

/// Settings for all partitions of a limiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimiterSettings {
    /// Attempts at once, of all partitions together.
    pub places: usize,
    /// So many failures in a row open a partition's circuit breaker.
    pub failures_in_a_row: u32,
    /// So does this share of failures among its recent attempts, in percent.
    pub failure_percent: u32,
    /// If there were at least this many recent attempts.
    pub min_requests: u32,
    /// How long an attempt is recent.
    pub window: Duration,
    /// How long a breaker is open the first time; twice as long each time its probe fails.
    pub first_pause: Duration,
    /// The longest pause, of a breaker and of a receiver that asks for one.
    pub longest_pause: Duration,
}

impl Default for LimiterSettings {
    fn default() -> Self {
        Self {
            places: 512,
            failures_in_a_row: 10,
            failure_percent: 50,
            min_requests: 20,
            window: Duration::from_secs(30),
            first_pause: Duration::from_secs(5),
            longest_pause: Duration::from_secs(300),
        }
    }
}

/// What an attempt shows about its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It works.
    Healthy,
    /// It does not.
    Failing,
    /// Nothing: no attempt was made, or its result is unknown.
    Unknown,
}

/// A partition gets no place now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: RefusalReason,
    /// When to ask again; `None`: once a running attempt has ended.
    pub until: Option<Instant>,
}

/// Why a partition gets no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// Its concurrency is reached.
    Concurrency,
    /// All places are taken, or the last ones are kept for partitions that have fewer.
    Places,
    /// Its rate is used up.
    Rate,
    /// Its receiver asked for a pause.
    RetryAfter,
    /// Its circuit breaker is open, or a probe is running.
    BreakerOpen,
}

/// Until when a partition is paused, and why. A used-up rate is no pause: it lasts a second at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionPause {
    /// Until then.
    pub until: Instant,
    /// Why.
    pub reason: PauseReason,
}

/// Why a partition is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseReason {
    /// So many failures in a row opened its circuit breaker.
    FailuresInARow(u32),
    /// Too many of its recent attempts failed, which opened its circuit breaker.
    FailureRate {
        /// How many failed.
        failed: u32,
        /// Of how many.
        of: u32,
    },
    /// Its circuit breaker was open, and its probe failed.
    TestFailed,
    /// Its receiver sent `Retry-After`.
    RetryAfter,
}

impl fmt::Display for PauseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FailuresInARow(1) => f.write_str("circuit breaker open after 1 failure"),
            Self::FailuresInARow(failures) => {
                write!(f, "circuit breaker open after {failures} failures in a row")
            }
            Self::FailureRate { failed, of } => {
                write!(f, "circuit breaker open after {failed} failures in {of} requests")
            }
            Self::TestFailed => f.write_str("circuit breaker open: the last test request failed"),
            Self::RetryAfter => f.write_str("receiver sent Retry-After"),
        }
    }
}

/// The limits of all partitions. Cheap to clone; clones are the same limiter.
pub struct Limiter<K>(Arc<Shared<K>>);

impl<K> Clone for Limiter<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

struct Shared<K> {
    settings: LimiterSettings,
    /// Times in the state count from here.
    began: Instant,
    state: Mutex<State<K>>,
}

struct State<K> {
    partitions: HashMap<K, PartitionState>,
    taken: Taken,
    swept: Duration,
    doubted: Duration,
    /// Partitions whose pauses have changed since they were last read.
    changed_pauses: BTreeSet<K>,
    pause_changed: Arc<Notify>,
}

impl<K: PartitionKey> Limiter<K> {
    /// A limiter that knows of no partition yet.
    #[must_use]
    pub fn new(settings: LimiterSettings) -> Self {
        let state = State {
            partitions: HashMap::new(),
            taken: Taken::default(),
            swept: Duration::ZERO,
            doubted: Duration::ZERO,
            changed_pauses: BTreeSet::new(),
            pause_changed: Arc::default(),
        };
        Self(Arc::new(Shared { settings, began: Instant::now(), state: Mutex::new(state) }))
    }

    /// Takes a place for one attempt.
    ///
    /// # Errors
    /// Why there is none now.
    pub fn acquire(&self, key: &K, limits: &Limits) -> Result<Permit<K>, Refusal> {
        let (permits, refusal) = self.acquire_up_to(key, limits, 1);
        permits
            .and_then(|mut permits| permits.take())
            .ok_or(refusal.unwrap_or(Refusal { reason: RefusalReason::Places, until: None }))
    }

    /// Takes places for up to `most` attempts of one partition, and says why there are no more.
    pub fn acquire_up_to(
        &self,
        key: &K,
        limits: &Limits,
        most: usize,
    ) -> (Option<Permits<K>>, Option<Refusal>) {
        let (now, settings) = (self.now(), &self.0.settings);
        let mut state = self.state();
        state.sweep(now, settings);
        state.doubt(now);
        let taken = state.taken;
        let (places, refused) = state.change(key, |partition| {
            let without = taken.without(held_by(partition));
            let (mut ticket, mut count) = (None, 0);
            while count < most {
                let taken = without.with(held_by(partition));
                let may_take = |asking| fair_share::may_take(asking, taken, settings.places);
                match partition.acquire(limits, may_take, now) {
                    Ok(first) => ticket = ticket.or(Some(first)),
                    Err(refused) => return (ticket.map(|ticket| (ticket, count)), Some(refused)),
                }
                count += 1;
            }
            (ticket.map(|ticket| (ticket, count)), None)
        });
        let limiter = self.clone();
        let permits = places.map(|(ticket, count)| Permits { limiter, key: key.clone(), ticket, count });
        (permits, refused.map(|refused| self.refusal_of(refused)))
    }

    /// How many attempts of this partition could begin now, not counting its rate.
    #[must_use]
    pub fn available(&self, key: &K, limits: &Limits) -> usize {
        let (now, places) = (self.now(), self.0.settings.places);
        let state = self.state();
        let unknown = PartitionState::default();
        let partition = state.partitions.get(key).unwrap_or(&unknown);
        if fair_share::may_take(partition.asking(), state.taken, places) {
            partition.available(limits, now).min(places.saturating_sub(state.taken.places))
        } else {
            0
        }
    }

    /// How many places this partition holds.
    #[must_use]
    pub fn held(&self, key: &K) -> usize {
        self.state().partitions.get(key).map_or(0, PartitionState::held)
    }

    /// Whether the last result of this partition was healthy.
    #[must_use]
    pub fn is_healthy(&self, key: &K) -> bool {
        self.state().partitions.get(key).is_some_and(|partition| partition.asking().healthy)
    }

    /// Why this partition gets no place now, whatever its limits are.
    #[must_use]
    pub fn refusal(&self, key: &K) -> Option<Refusal> {
        let refused = self.state().partitions.get(key)?.refusal(self.now())?;
        Some(self.refusal_of(refused))
    }

    /// Ends the pauses of a partition whose configuration has changed since the last call, on whichever node.
    pub fn config_changed(&self, key: &K, changed_at: Timestamp) {
        self.state().change(key, |partition| partition.config_changed(changed_at));
    }

    /// Waits until the pause of a partition begins, changes or ends. For one reader.
    pub async fn pause_changed(&self) {
        let changed = self.state().pause_changed.clone();
        changed.notified().await;
    }

    /// The partitions whose pauses have changed since the last call; `None` for those that are not paused now.
    #[must_use]
    pub fn take_changed_pauses(&self) -> Vec<(K, Option<PartitionPause>)> {
        let now = self.now();
        let mut state = self.state();
        let changed = std::mem::take(&mut state.changed_pauses);
        let pause_of = |key: &K| {
            let (until, reason) = state.partitions.get(key)?.pause().filter(|(until, _)| *until > now)?;
            Some(PartitionPause { until: self.0.began.checked_add(until)?, reason })
        };
        let with_pause = |key: K| {
            let pause = pause_of(&key);
            (key, pause)
        };
        changed.into_iter().map(with_pause).collect()
    }

    /// Returns the pauses of these partitions from the next [`Self::take_changed_pauses`] once more.
    pub fn put_back_pauses(&self, keys: impl IntoIterator<Item = K>) {
        let mut state = self.state();
        state.changed_pauses.extend(keys);
        state.pause_changed.notify_one();
    }

    /// How many places are free.
    #[must_use]
    pub fn free(&self) -> usize {
        self.0.settings.places.saturating_sub(self.state().taken.places)
    }

    /// Records the result of an attempt that another node admitted.
    pub fn observe(&self, key: &K, verdict: Verdict, retry_after: Option<Duration>) {
        self.change(key, |partition, now, settings| partition.observe(verdict, retry_after, now, settings));
    }

    fn change(&self, key: &K, change: impl FnOnce(&mut PartitionState, Duration, &LimiterSettings)) {
        let now = self.now();
        self.state().change(key, |partition| change(partition, now, &self.0.settings));
    }

    fn now(&self) -> Duration {
        self.0.began.elapsed()
    }

    fn refusal_of(&self, (reason, until): Refused) -> Refusal {
        Refusal { reason, until: until.and_then(|until| self.0.began.checked_add(until)) }
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: PartitionKey> State<K> {
    /// Changes a partition, and with it the places that all hold together.
    fn change<T>(&mut self, key: &K, change: impl FnOnce(&mut PartitionState) -> T) -> T {
        let partition = self.partitions.entry(key.clone()).or_default();
        let (before, pause) = (held_by(partition), partition.pause());
        let changed = change(partition);
        let after = held_by(partition);
        if partition.pause() != pause {
            self.changed_pauses.insert(key.clone());
            self.pause_changed.notify_one();
        }
        self.taken = self.taken.without(before).with(after);
        changed
    }

    /// Looks now and then for partitions whose attempts have not ended for so long that they do not count as healthy any more.
    fn doubt(&mut self, now: Duration) {
        if now.saturating_sub(self.doubted) < DOUBTED_EVERY {
            return;
        }
        self.doubted = now;
        let silent = self.partitions.iter().filter(|(_, partition)| partition.is_silent(now));
        for key in silent.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.change(&key, PartitionState::doubt);
        }
    }

    /// Forgets partitions that were idle for so long that nothing they know matters.
    fn sweep(&mut self, now: Duration, settings: &LimiterSettings) {
        if self.partitions.len() > MANY && now.saturating_sub(self.swept) >= SWEPT_EVERY {
            self.swept = now;
            self.partitions.retain(|_, partition| !partition.is_forgotten(now, settings));
        }
    }
}

/// What one partition holds.
fn held_by(partition: &PartitionState) -> Taken {
    let Asking { held, healthy } = partition.asking();
    Taken {
        places: held,
        by_unproven: if healthy { 0 } else { held },
        healthy_partitions: usize::from(held > 0 && healthy),
    }
}

/// Places of one partition that no attempt uses yet. Dropped, they are free again and do not count against the rate.
pub struct Permits<K: PartitionKey> {
    limiter: Limiter<K>,
    key: K,
    ticket: Ticket,
    count: usize,
}

impl<K: PartitionKey> Permits<K> {
    /// How many.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// One of them, for one attempt.
    pub fn take(&mut self) -> Option<Permit<K>> {
        self.count = self.count.checked_sub(1)?;
        let (limiter, key) = (self.limiter.clone(), self.key.clone());
        Some(Permit { limiter, key, ticket: Some(self.ticket) })
    }
}

impl<K: PartitionKey> Drop for Permits<K> {
    fn drop(&mut self) {
        let (ticket, count) = (self.ticket, self.count);
        if count > 0 {
            self.limiter.change(&self.key, |partition, now, settings| {
                partition.release_unused(ticket, count, now, settings);
            });
        }
    }
}

/// A place for one attempt. Dropped without a result, it is free again and does not count against the rate.
pub struct Permit<K: PartitionKey> {
    limiter: Limiter<K>,
    key: K,
    ticket: Option<Ticket>,
}

impl<K: PartitionKey> Permit<K> {
    /// Gives the place back after an attempt. A receiver that asked for it is paused.
    pub fn release(mut self, verdict: Verdict, retry_after: Option<Duration>) {
        if let Some(ticket) = self.ticket.take() {
            self.limiter.change(&self.key, |partition, now, settings| {
                partition.release(ticket, verdict, retry_after, now, settings);
            });
        }
    }
}

impl<K: PartitionKey> Drop for Permit<K> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.limiter.change(&self.key, |partition, now, settings| {
                partition.release_unused(ticket, 1, now, settings);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: i64 = 1;
    const OTHER: i64 = 2;

    fn limiter(places: usize) -> Limiter<i64> {
        Limiter::new(LimiterSettings { places, failures_in_a_row: 3, ..LimiterSettings::default() })
    }

    fn at_once(concurrency: usize) -> Limits {
        Limits { concurrency, rate: None }
    }

    fn why(entered: Result<Permit<i64>, Refusal>) -> RefusalReason {
        entered.err().map(|wait| wait.reason).unwrap()
    }

    /// Takes what there is to take.
    fn fill(limiter: &Limiter<i64>, endpoint: i64, limits: &Limits) -> Vec<Permit<i64>> {
        std::iter::from_fn(|| limiter.acquire(&endpoint, limits).ok()).collect()
    }

    async fn pass(time: Duration) {
        tokio::time::advance(time).await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_another_node_was_answered_counts_and_takes_no_place() {
        let limiter = limiter(10);
        for _ in 0..3 {
            assert_eq!(limiter.refusal(&ONE), None);
            limiter.observe(&ONE, Verdict::Failing, None);
        }
        assert_eq!(limiter.refusal(&ONE).map(|wait| wait.reason), Some(RefusalReason::BreakerOpen));
        limiter.observe(&ONE, Verdict::Healthy, None);
        assert_eq!(
            why(limiter.acquire(&ONE, &at_once(3))),
            RefusalReason::BreakerOpen,
            "it is left alone for its time"
        );
        limiter.observe(&OTHER, Verdict::Healthy, Some(Duration::from_secs(7)));
        assert_eq!(why(limiter.acquire(&OTHER, &at_once(3))), RefusalReason::RetryAfter);
        assert!(limiter.is_healthy(&OTHER));
        assert_eq!(limiter.free(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn an_endpoint_has_no_more_requests_at_once_than_it_may() {
        let limiter = limiter(100);
        let mut held = fill(&limiter, ONE, &at_once(3));
        assert_eq!(held.len(), 3);
        assert_eq!(
            limiter.acquire(&ONE, &at_once(3)).err(),
            Some(Refusal { reason: RefusalReason::Concurrency, until: None })
        );
        assert_eq!((limiter.available(&ONE, &at_once(3)), limiter.available(&OTHER, &at_once(3))), (0, 3));
        held.pop().unwrap().release(Verdict::Healthy, None);
        assert_eq!(limiter.available(&ONE, &at_once(3)), 1);
        drop(held);
        assert_eq!(fill(&limiter, ONE, &at_once(5)).len(), 5, "a place that is dropped is free again");
    }

    /// Lets these endpoints do their work once.
    fn prove(limiter: &Limiter<i64>, endpoints: &[i64]) {
        for endpoint in endpoints {
            limiter.acquire(endpoint, &at_once(1)).ok().unwrap().release(Verdict::Healthy, None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_endpoint_takes_no_place_from_the_others() {
        let limiter = limiter(80);
        prove(&limiter, &[ONE, OTHER, 3]);
        let slow = fill(&limiter, ONE, &at_once(1000));
        assert_eq!(slow.len(), 60, "three quarters of the places");
        assert_eq!(why(limiter.acquire(&ONE, &at_once(1000))), RefusalReason::Places);
        let quick = fill(&limiter, OTHER, &at_once(5));
        assert_eq!(quick.len(), 5);
        let third = fill(&limiter, 3, &at_once(1000));
        assert_eq!(third.len(), 5, "what is left, but for what is for whoever comes anew");
        drop(slow);
        assert_eq!(fill(&limiter, 3, &at_once(1000)).len(), 50, "three quarters, less what the others have");
    }

    #[tokio::test(start_paused = true)]
    async fn however_busy_endpoints_are_that_work_one_that_comes_anew_is_heard() {
        let limiter = limiter(64);
        let all: Vec<i64> = (10..1000).collect();
        prove(&limiter, &all);
        let busy: Vec<_> = all.iter().flat_map(|endpoint| fill(&limiter, *endpoint, &at_once(4))).collect();
        assert_eq!(busy.len(), 56, "all but an eighth");
        let heard: Vec<_> =
            (1..=8).filter_map(|newcomer| limiter.acquire(&newcomer, &at_once(4)).ok()).collect();
        assert_eq!(heard.len(), 8);
        assert_eq!(why(limiter.acquire(&9, &at_once(4))), RefusalReason::Places);
    }

    #[tokio::test(start_paused = true)]
    async fn however_many_endpoints_hang_one_that_works_keeps_its_rate() {
        let limiter = limiter(64);
        prove(&limiter, &[ONE]);
        let hanging: Vec<_> =
            (10..1000).flat_map(|endpoint| fill(&limiter, endpoint, &at_once(16))).collect();
        assert_eq!(hanging.len(), 48, "all but the last quarter");
        assert_eq!(
            why(limiter.acquire(&OTHER, &at_once(1))),
            RefusalReason::Places,
            "nothing is known of it"
        );
        let mut working = fill(&limiter, ONE, &at_once(16));
        assert_eq!(working.len(), 16);
        working.pop().unwrap().release(Verdict::Failing, None);
        assert_eq!(why(limiter.acquire(&ONE, &at_once(16))), RefusalReason::Places, "it works no more");
        working.pop().unwrap().release(Verdict::Healthy, None);
        assert_eq!(fill(&limiter, ONE, &at_once(16)).len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn endpoints_that_worked_and_then_all_hang_leave_room_too() {
        let limiter = limiter(64);
        let all: Vec<i64> = (10..1000).collect();
        prove(&limiter, &all);
        prove(&limiter, &[ONE]);
        let mut hanging: Vec<_> =
            all.iter().flat_map(|endpoint| fill(&limiter, *endpoint, &at_once(16))).collect();
        pass(Duration::from_secs(10)).await;
        assert_eq!(
            why(limiter.acquire(&10, &at_once(64))),
            RefusalReason::Places,
            "it has not answered for long"
        );
        assert!(!limiter.is_healthy(&10) && limiter.is_healthy(&ONE));
        assert_eq!(fill(&limiter, ONE, &at_once(16)).len(), 8, "nobody else gets what is left");
        hanging.pop().unwrap().release(Verdict::Healthy, None);
        assert_eq!(why(limiter.acquire(&10, &at_once(64))), RefusalReason::Places);
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_is_kept_and_says_when_to_come_again() {
        let limiter = limiter(100);
        let rate = Rate { requests: NonZeroU32::new(2).unwrap(), every: Duration::from_secs(10) };
        let limits = Limits { concurrency: 10, rate: Some(rate) };
        let go = || limiter.acquire(&ONE, &limits).map(|place| place.release(Verdict::Healthy, None));
        assert!(go().is_ok() && go().is_ok());
        let wait = go().unwrap_err();
        assert_eq!(
            (wait.reason, wait.until.unwrap() - Instant::now()),
            (RefusalReason::Rate, Duration::from_secs(5))
        );
        assert_eq!(limiter.refusal(&ONE), Some(wait));
        assert!(limiter.acquire(&OTHER, &limits).is_ok(), "each has its own");
        pass(Duration::from_secs(5)).await;
        assert_eq!(limiter.refusal(&ONE), None);
        assert!(go().is_ok() && go().is_err());
        let unlimited = at_once(10);
        assert!(limiter.acquire(&ONE, &unlimited).is_ok(), "a limit that is taken away is gone at once");
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_that_nothing_was_sent_from_does_not_count_against_the_rate() {
        let limiter = limiter(100);
        let rate = Rate { requests: NonZeroU32::new(2).unwrap(), every: Duration::from_secs(10) };
        let limits = Limits { concurrency: 10, rate: Some(rate) };
        for _ in 0..5 {
            assert_eq!(fill(&limiter, ONE, &limits).len(), 2);
        }
        limiter.acquire(&ONE, &limits).ok().unwrap().release(Verdict::Healthy, None);
        assert_eq!(fill(&limiter, ONE, &limits).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_broken_endpoint_is_left_alone_and_tried_once_in_a_while() {
        let limiter = limiter(100);
        for _ in 0..3 {
            limiter.acquire(&ONE, &at_once(9)).ok().unwrap().release(Verdict::Failing, None);
        }
        let wait = limiter.acquire(&ONE, &at_once(9)).err().unwrap();
        assert_eq!(
            (wait.reason, wait.until.unwrap() - Instant::now()),
            (RefusalReason::BreakerOpen, Duration::from_secs(5))
        );
        assert_eq!(limiter.refusal(&ONE), Some(wait));
        assert!(limiter.acquire(&OTHER, &at_once(9)).is_ok());
        pass(Duration::from_secs(5)).await;
        assert_eq!(limiter.available(&ONE, &at_once(9)), 1);
        let trial = fill(&limiter, ONE, &at_once(9));
        assert_eq!(trial.len(), 1);
        assert_eq!(limiter.refusal(&ONE), Some(Refusal { reason: RefusalReason::BreakerOpen, until: None }));
        drop(trial);
        let trial = fill(&limiter, ONE, &at_once(9));
        assert_eq!(trial.len(), 1, "a trial that came to nothing is made again");
        for place in trial {
            place.release(Verdict::Healthy, None);
        }
        assert_eq!(fill(&limiter, ONE, &at_once(9)).len(), 9);
    }

    #[tokio::test(start_paused = true)]
    async fn an_endpoint_that_wants_to_be_left_alone_is_though_not_for_ever() {
        let limiter = limiter(100);
        let go = |quiet_for| {
            limiter.acquire(&ONE, &at_once(9)).map(|place| place.release(Verdict::Failing, quiet_for))
        };
        go(Some(Duration::from_secs(7))).unwrap();
        let wait = go(None).unwrap_err();
        assert_eq!(
            (wait.reason, wait.until.unwrap() - Instant::now()),
            (RefusalReason::RetryAfter, Duration::from_secs(7))
        );
        pass(Duration::from_secs(7)).await;
        go(Some(Duration::MAX)).unwrap();
        pass(LimiterSettings::default().longest_pause).await;
        assert!(go(None).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn an_endpoint_that_was_changed_is_judged_anew() {
        let limiter = limiter(100);
        let changed = |nth| limiter.config_changed(&ONE, Timestamp::from_micros(nth));
        for nth in 0..3 {
            changed(nth);
            assert_eq!(limiter.refusal(&ONE), None);
            limiter
                .acquire(&ONE, &at_once(9))
                .ok()
                .unwrap()
                .release(Verdict::Failing, Some(Duration::from_secs(60)));
            changed(nth);
            assert_eq!(limiter.refusal(&ONE).unwrap().reason, RefusalReason::RetryAfter, "nobody changed it");
        }
        changed(3);
        let late = limiter.acquire(&ONE, &at_once(9)).ok().unwrap();
        changed(4);
        late.release(Verdict::Healthy, None);
        assert_eq!(fill(&limiter, ONE, &at_once(9)).len(), 9);
    }

    #[tokio::test(start_paused = true)]
    async fn pause_is_reported_when_it_begins_changes_and_ends() {
        let limiter = limiter(100);
        let seconds = Duration::from_secs;
        let fail =
            |quiet_for| limiter.acquire(&ONE, &at_once(9)).ok().unwrap().release(Verdict::Failing, quiet_for);
        let changed = || {
            let now = Instant::now();
            let told = limiter.take_changed_pauses().into_iter();
            told.map(|(id, pause)| (id, pause.map(|it| (it.until - now, it.reason)))).collect::<Vec<_>>()
        };
        // Time stands still, so a change that is not reported fails at once.
        let reported = async || tokio::time::timeout(seconds(1), limiter.pause_changed()).await.is_ok();
        fail(None);
        fail(None);
        assert_eq!(changed(), []);
        fail(None);
        assert!(reported().await, "the beginning of a pause is reported");
        let opened = [(ONE, Some((seconds(5), PauseReason::FailuresInARow(3))))];
        assert_eq!(changed(), opened);
        assert_eq!(changed(), [], "each change once");
        limiter.put_back_pauses([ONE]);
        assert!(reported().await, "it is reported again");
        assert_eq!(changed(), opened, "it could not be written");
        limiter.observe(&ONE, Verdict::Failing, Some(seconds(30)));
        assert_eq!(changed(), [(ONE, Some((seconds(30), PauseReason::RetryAfter)))], "the later of both");
        pass(seconds(30)).await;
        fail(None);
        assert_eq!(changed(), [(ONE, Some((seconds(10), PauseReason::TestFailed)))]);
        pass(seconds(10)).await;
        limiter.acquire(&ONE, &at_once(9)).ok().unwrap().release(Verdict::Healthy, None);
        assert_eq!(changed(), [(ONE, None)]);
    }

    #[tokio::test(start_paused = true)]
    async fn change_of_an_endpoint_ends_its_pause() {
        let limiter = limiter(100);
        limiter.config_changed(&ONE, Timestamp::from_micros(1));
        limiter
            .acquire(&ONE, &at_once(9))
            .ok()
            .unwrap()
            .release(Verdict::Failing, Some(Duration::from_secs(60)));
        assert!(matches!(limiter.take_changed_pauses()[..], [(ONE, Some(_))]));
        limiter.config_changed(&ONE, Timestamp::from_micros(2));
        assert_eq!(limiter.take_changed_pauses(), [(ONE, None)]);
    }

    #[test]
    fn pause_reasons_name_the_cause() {
        let written = [
            PauseReason::FailuresInARow(10),
            PauseReason::FailuresInARow(1),
            PauseReason::FailureRate { failed: 12, of: 20 },
            PauseReason::TestFailed,
            PauseReason::RetryAfter,
        ]
        .map(|reason| reason.to_string());
        assert_eq!(
            written,
            [
                "circuit breaker open after 10 failures in a row",
                "circuit breaker open after 1 failure",
                "circuit breaker open after 12 failures in 20 requests",
                "circuit breaker open: the last test request failed",
                "receiver sent Retry-After",
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn endpoints_that_nobody_uses_are_forgotten() {
        let limiter = limiter(100_000);
        let held = limiter.acquire(&-1, &at_once(1)).ok().unwrap();
        for endpoint in 0..5000 {
            limiter.acquire(&endpoint, &at_once(1)).ok().unwrap().release(Verdict::Healthy, None);
        }
        pass(Duration::from_secs(2 * 60 * 60)).await;
        drop(limiter.acquire(&9999, &at_once(1)));
        assert_eq!(limiter.state().partitions.len(), 2);
        assert_eq!(
            why(limiter.acquire(&-1, &at_once(1))),
            RefusalReason::Concurrency,
            "who is in use is remembered"
        );
        drop(held);
        let state = limiter.state();
        assert_eq!(state.taken, Taken::default());
    }
}
