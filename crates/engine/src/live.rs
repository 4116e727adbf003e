//! The sagas that are under way in this process, and who is waiting for them.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use backstitch_kernel::saga::{Recorded, State};
use backstitch_kernel::{SagaId, Timestamp};
use tokio::sync::{Notify, watch};

use crate::limit::LimitScope;
use crate::registry::Registered;
use crate::runtime::{AttemptLimits, Grant};
use crate::watch::{LogWriter, Watchers};

/// Sagas hash to one of these, so that starts do not queue for one lock.
const SHARDS: usize = 16;

/// How this process came to be done with a saga.
#[derive(Clone)]
pub(crate) enum End {
    /// It is at its end.
    Final(Arc<Registered>, Arc<State>),
    /// It goes on elsewhere, or later.
    LetGo,
}

/// A saga under way.
pub(crate) struct Live {
    wake: Notify,
    mail: AtomicBool,
    /// The newest message that was looked at.
    mail_seen: AtomicU64,
    /// Set when this process is done with it.
    end: watch::Sender<Option<End>>,
    log: LogWriter<Recorded>,
    /// Since when nothing has happened, in microseconds.
    still_since: AtomicI64,
    /// Until when something is bound to happen, in microseconds.
    due: AtomicI64,
    /// Whether its driver holds a slot.
    holds_slot: AtomicBool,
    /// What its attempts that run here count against; those without limits are not listed.
    attempts: Mutex<Vec<AttemptLimits>>,
    /// What the run queue has given it; `None` once its driver takes no more.
    grants: Mutex<Option<Vec<Grant>>>,
}

impl Live {
    fn new(log: LogWriter<Recorded>) -> Self {
        Self {
            wake: Notify::default(),
            mail: AtomicBool::default(),
            mail_seen: AtomicU64::default(),
            end: watch::Sender::default(),
            log,
            // Nobody has said yet what it waits for.
            still_since: AtomicI64::new(i64::MAX),
            due: AtomicI64::new(i64::MIN),
            holds_slot: AtomicBool::default(),
            attempts: Mutex::default(),
            grants: Mutex::new(Some(Vec::new())),
        }
    }

    /// It waits, and nothing has happened since; something will by `due`, be it that an attempt has run out of time.
    pub(crate) fn waits(&self, since: Timestamp, due: Option<Timestamp>) {
        self.still_since.store(since.as_micros(), Ordering::Relaxed);
        self.due.store(due.map_or(i64::MIN, Timestamp::as_micros), Ordering::Relaxed);
    }

    /// Since when nothing has happened, if nothing is bound to.
    fn stands_still(&self, now: Timestamp) -> Option<Timestamp> {
        let due = self.due.load(Ordering::Relaxed);
        let since = self.still_since.load(Ordering::Relaxed);
        (due <= now.as_micros()).then(|| Timestamp::from_micros(since))
    }

    /// Gives it what it waited for in the run queue; `false` if its driver is about to leave.
    pub(crate) fn grant(&self, grant: Grant) -> bool {
        let mut grants = self.grants.lock().unwrap_or_else(PoisonError::into_inner);
        let is_open = grants.as_mut().map(|grants| grants.push(grant)).is_some();
        drop(grants);
        self.nudge();
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

    /// The hosts and steps that its attempts count against.
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

    /// Takes no more grants, unless there are some to use first.
    pub(crate) fn refuse_grants(&self) -> bool {
        let mut grants = self.grants.lock().unwrap_or_else(PoisonError::into_inner);
        let is_unused = grants.as_ref().is_none_or(Vec::is_empty);
        if is_unused {
            *grants = None;
        }
        is_unused
    }

    pub(crate) fn nudge(&self) {
        self.wake.notify_one();
    }

    pub(crate) fn nudge_for_mail(&self) {
        self.mail.store(true, Ordering::Release);
        self.nudge();
    }

    /// Has it look at its messages, if the newest of them is newer than what it has seen: one that changed nothing waits there
    /// until the next decision.
    pub(crate) fn nudge_for_newer_mail(&self, newest: u64) {
        if newest > self.mail_seen.load(Ordering::Acquire) {
            self.nudge_for_mail();
        }
    }

    pub(crate) fn saw_mail(&self, newest: u64) {
        self.mail_seen.store(newest, Ordering::Release);
    }

    pub(crate) async fn nudged(&self) {
        self.wake.notified().await;
    }

    pub(crate) fn has_mail(&self) -> bool {
        self.mail.load(Ordering::Acquire)
    }

    pub(crate) fn take_mail_flag(&self) -> bool {
        self.mail.swap(false, Ordering::AcqRel)
    }

    /// Its log, which this process writes.
    pub(crate) fn log(&self) -> &LogWriter<Recorded> {
        &self.log
    }

    pub(crate) fn end(&self) -> watch::Receiver<Option<End>> {
        self.end.subscribe()
    }
}

/// All sagas under way.
pub(crate) struct LiveSagas {
    shards: Vec<Mutex<HashMap<SagaId, Arc<Live>>>>,
    watchers: Arc<Watchers<Recorded>>,
}

impl LiveSagas {
    pub(crate) fn new(watchers: Arc<Watchers<Recorded>>) -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), watchers }
    }

    fn shard(&self, saga: SagaId) -> std::sync::MutexGuard<'_, HashMap<SagaId, Arc<Live>>> {
        // The last byte of a UUIDv7 is random, so it spreads sagas that start together.
        let index = usize::from(saga.0.as_bytes()[15]) % SHARDS;
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a saga; `None` if it is under way already.
    pub(crate) fn enter(&self, saga: SagaId) -> Option<Arc<Live>> {
        let mut shard = self.shard(saga);
        if shard.contains_key(&saga) {
            return None;
        }
        let live = Arc::new(Live::new(self.watchers.write(saga)));
        shard.insert(saga, live.clone());
        Some(live)
    }

    /// Strikes a saga off and tells whoever waits for it.
    pub(crate) fn leave(&self, saga: SagaId, end: End) {
        // Under the lock of the shard: the next driver of this saga writes its log after this one has released it.
        let mut shard = self.shard(saga);
        if let Some(live) = shard.remove(&saga) {
            live.log.release(matches!(end, End::Final(..)));
            live.end.send_replace(Some(end));
        }
    }

    pub(crate) fn get(&self, saga: SagaId) -> Option<Arc<Live>> {
        self.shard(saga).get(&saga).cloned()
    }

    pub(crate) fn nudge_all(&self) {
        for shard in &self.shards {
            shard.lock().unwrap_or_else(PoisonError::into_inner).values().for_each(|live| live.nudge());
        }
    }

    /// Up to `limit` sagas to which nothing has happened since before this time and nothing is bound to, each
    /// with since when, longest first.
    pub(crate) fn still(&self, since: Timestamp, now: Timestamp, limit: usize) -> Vec<(Timestamp, SagaId)> {
        let mut still = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let stand = shard.iter().filter_map(|(saga, live)| Some((live.stands_still(now)?, *saga)));
            still.extend(stand.filter(|(stood, _)| *stood <= since));
        }
        still.sort_unstable();
        still.truncate(limit);
        still
    }

    /// Of each saga that holds a slot: the hosts and steps that its attempts count against.
    pub(crate) fn slot_holders(&self) -> Vec<BTreeSet<LimitScope>> {
        let mut holders = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            holders.extend(shard.values().filter(|live| live.holds_slot()).map(|live| live.scopes()));
        }
        holders
    }

    pub(crate) fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner).len()).sum()
    }
}
