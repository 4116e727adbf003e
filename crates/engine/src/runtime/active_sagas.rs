//! The sagas that this process executes, and the signals by which others reach their executors.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use backstitch_kernel::saga::{Recorded, State};
use backstitch_kernel::{SagaId, Timestamp};
use tokio::sync::{Notify, watch};

use super::{AttemptLimits, Grant, Shared};
use crate::limit::LimitScope;
use crate::registry::Registered;
use crate::watch::{LogWriter, Watchers};

/// Sagas hash to one of these, so that starts do not queue for one lock.
const SHARDS: usize = 16;

/// How this process stopped executing a saga.
#[derive(Clone)]
pub(crate) enum End {
    /// The saga has ended.
    Final(Arc<Registered>, Arc<State>),
    /// It is executed elsewhere, or later.
    Released,
}

/// Guard for an active saga: nothing else in this process executes it. Gives the place back when it is dropped, even by a
/// panic or a caller that went away; the sweep then finds the saga if this node owns it.
pub(crate) struct RunSlot {
    shared: Arc<Shared>,
    saga: SagaId,
    active: Arc<ActiveSaga>,
    end: Option<End>,
}

impl RunSlot {
    /// Takes the place; `None` if something in this process has it.
    pub(crate) fn take(shared: &Arc<Shared>, saga: SagaId) -> Option<Self> {
        let active = shared.active.enter(saga)?;
        Some(Self { shared: shared.clone(), saga, active, end: None })
    }

    pub(crate) fn saga(&self) -> SagaId {
        self.saga
    }

    pub(crate) fn active(&self) -> &Arc<ActiveSaga> {
        &self.active
    }

    /// Gives the place back because the saga has ended.
    pub(crate) fn end(mut self, end: End) {
        self.end = Some(end);
    }
}

impl Drop for RunSlot {
    fn drop(&mut self) {
        self.shared.active.leave(self.saga, self.end.take().unwrap_or(End::Released));
    }
}

/// A saga that this process executes.
pub(crate) struct ActiveSaga {
    wake: Notify,
    has_new_inbox: AtomicBool,
    /// The newest message that its executor has read.
    inbox_seen: AtomicU64,
    /// Set when this process stops executing it.
    end: watch::Sender<Option<End>>,
    log: LogWriter<Recorded>,
    /// When the last event was written, in microseconds.
    still_since: AtomicI64,
    /// When the next event is due at the latest, in microseconds.
    due: AtomicI64,
    /// Whether its executor holds a slot for attempts.
    holds_slot: AtomicBool,
    /// The limits that its running attempts count against; attempts without limits are not listed.
    attempts: Mutex<Vec<AttemptLimits>>,
    /// What the run queue has granted; `None` once its executor takes no more.
    grants: Mutex<Option<Vec<Grant>>>,
}

impl ActiveSaga {
    fn new(log: LogWriter<Recorded>) -> Self {
        Self {
            wake: Notify::default(),
            has_new_inbox: AtomicBool::default(),
            inbox_seen: AtomicU64::default(),
            end: watch::Sender::default(),
            log,
            // Unknown until its executor waits for the first time.
            still_since: AtomicI64::new(i64::MAX),
            due: AtomicI64::new(i64::MIN),
            holds_slot: AtomicBool::default(),
            attempts: Mutex::default(),
            grants: Mutex::new(Some(Vec::new())),
        }
    }

    /// Its executor waits since this time. The next event is due at `due`: the end of an attempt's time, for one.
    pub(crate) fn waits(&self, since: Timestamp, due: Option<Timestamp>) {
        self.still_since.store(since.as_micros(), Ordering::Relaxed);
        self.due.store(due.map_or(i64::MIN, Timestamp::as_micros), Ordering::Relaxed);
    }

    /// When the last event was written, if no other is due.
    fn stands_still(&self, now: Timestamp) -> Option<Timestamp> {
        let due = self.due.load(Ordering::Relaxed);
        let since = self.still_since.load(Ordering::Relaxed);
        (due <= now.as_micros()).then(|| Timestamp::from_micros(since))
    }

    /// Grants what it waited for in the run queue; `false` if its executor is about to leave.
    pub(crate) fn grant(&self, grant: Grant) -> bool {
        let mut grants = self.grants.lock().unwrap_or_else(PoisonError::into_inner);
        let is_open = grants.as_mut().map(|grants| grants.push(grant)).is_some();
        drop(grants);
        self.wake();
        is_open
    }

    pub(crate) fn holds_slot(&self) -> bool {
        self.holds_slot.load(Ordering::Acquire)
    }

    pub(crate) fn hold_slot(&self, holds: bool) {
        self.holds_slot.store(holds, Ordering::Release);
    }

    pub(crate) fn begin_attempt(&self, limits: AttemptLimits) {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner).push(limits);
    }

    pub(crate) fn end_attempt(&self, limits: &AttemptLimits) {
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ended) = attempts.iter().position(|it| it.ids() == limits.ids()) {
            attempts.swap_remove(ended);
        }
    }

    /// The hosts and steps that its running attempts count against.
    fn scopes(&self) -> BTreeSet<LimitScope> {
        let attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        attempts.iter().flat_map(AttemptLimits::scopes).cloned().collect()
    }

    pub(crate) fn has_grants(&self) -> bool {
        let grants = self.grants.lock().unwrap_or_else(PoisonError::into_inner);
        grants.as_ref().is_some_and(|grants| !grants.is_empty())
    }

    pub(crate) fn take_grants(&self) -> Vec<Grant> {
        let mut grants = self.grants.lock().unwrap_or_else(PoisonError::into_inner);
        grants.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Takes no more grants, unless some are unused.
    pub(crate) fn refuse_grants(&self) -> bool {
        let mut grants = self.grants.lock().unwrap_or_else(PoisonError::into_inner);
        let is_unused = grants.as_ref().is_none_or(Vec::is_empty);
        if is_unused {
            *grants = None;
        }
        is_unused
    }

    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    pub(crate) fn wake_for_inbox(&self) {
        self.has_new_inbox.store(true, Ordering::Release);
        self.wake();
    }

    /// Has its executor read the inbox if the newest message is newer than what it has read. A message that changed nothing
    /// stays in the inbox until the next decision.
    pub(crate) fn wake_for_newer_inbox(&self, newest: u64) {
        if newest > self.inbox_seen.load(Ordering::Acquire) {
            self.wake_for_inbox();
        }
    }

    pub(crate) fn saw_inbox(&self, newest: u64) {
        self.inbox_seen.store(newest, Ordering::Release);
    }

    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    pub(crate) fn has_unread_inbox(&self) -> bool {
        self.has_new_inbox.load(Ordering::Acquire)
    }

    pub(crate) fn take_inbox_flag(&self) -> bool {
        self.has_new_inbox.swap(false, Ordering::AcqRel)
    }

    /// The log of the saga, which this process writes.
    pub(crate) fn log(&self) -> &LogWriter<Recorded> {
        &self.log
    }

    pub(crate) fn end(&self) -> watch::Receiver<Option<End>> {
        self.end.subscribe()
    }
}

/// All sagas that this process executes.
pub(crate) struct ActiveSagas {
    shards: Vec<Mutex<HashMap<SagaId, Arc<ActiveSaga>>>>,
    watchers: Arc<Watchers<Recorded>>,
}

impl ActiveSagas {
    pub(crate) fn new(watchers: Arc<Watchers<Recorded>>) -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), watchers }
    }

    fn shard(&self, saga: SagaId) -> std::sync::MutexGuard<'_, HashMap<SagaId, Arc<ActiveSaga>>> {
        // The last byte of a UUIDv7 is random, so it spreads sagas that start together.
        let index = usize::from(saga.0.as_bytes()[15]) % SHARDS;
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a saga; `None` if it is executed already.
    pub(crate) fn enter(&self, saga: SagaId) -> Option<Arc<ActiveSaga>> {
        let mut shard = self.shard(saga);
        if shard.contains_key(&saga) {
            return None;
        }
        let active = Arc::new(ActiveSaga::new(self.watchers.write(saga)));
        shard.insert(saga, active.clone());
        Some(active)
    }

    /// Removes a saga and notifies those that wait for its end.
    pub(crate) fn leave(&self, saga: SagaId, end: End) {
        // Under the lock of the shard: the next executor of this saga writes its log after this one has released it.
        let mut shard = self.shard(saga);
        if let Some(active) = shard.remove(&saga) {
            active.log.release(matches!(end, End::Final(..)));
            active.end.send_replace(Some(end));
        }
    }

    pub(crate) fn get(&self, saga: SagaId) -> Option<Arc<ActiveSaga>> {
        self.shard(saga).get(&saga).cloned()
    }

    pub(crate) fn wake_all(&self) {
        for shard in &self.shards {
            shard.lock().unwrap_or_else(PoisonError::into_inner).values().for_each(|active| active.wake());
        }
    }

    /// Up to `limit` sagas whose last event is older than this and that have nothing due, each with the time of its last
    /// event, oldest first.
    pub(crate) fn still(&self, since: Timestamp, now: Timestamp, limit: usize) -> Vec<(Timestamp, SagaId)> {
        let mut still = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let stand = shard.iter().filter_map(|(saga, active)| Some((active.stands_still(now)?, *saga)));
            still.extend(stand.filter(|(stood, _)| *stood <= since));
        }
        still.sort_unstable();
        still.truncate(limit);
        still
    }

    /// The hosts and steps that the attempts of each saga with a slot count against.
    pub(crate) fn slot_holders(&self) -> Vec<BTreeSet<LimitScope>> {
        let mut holders = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            holders.extend(shard.values().filter(|active| active.holds_slot()).map(|active| active.scopes()));
        }
        holders
    }

    pub(crate) fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner).len()).sum()
    }
}
