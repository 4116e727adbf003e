//! The run queue: sagas that this node owns and that wait for a slot, for room at a host or a step, or for their time.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use backstitch_kernel::saga::Phase;
use backstitch_kernel::{SagaId, Timestamp};
use tokio::sync::Notify;

use super::room::{AttemptLimits, Permits, Reservation};
use crate::clock::Clock;
use crate::limit::LimitScope;

/// Keeps a small record of every saga that waits. Lanes take turns, one for each definition and limit, so neither a full
/// host nor a busy definition holds up others; rollbacks run before everything else.
pub(crate) struct RunQueue {
    queue: Mutex<Queue>,
    changed: Notify,
    clock: Arc<dyn Clock>,
}

/// Attempts wait for room at a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FullLimit {
    /// What has no room.
    pub scope: LimitScope,
    /// How many attempts wait for it in this process; sagas, where they wait for a slot.
    pub waiting: usize,
    /// Since when the first of them does.
    pub since: Timestamp,
    /// Of the slots: the host or step whose attempts hold most of them. `None` where attempts of unlimited steps do.
    pub held_by: Option<LimitScope>,
}

/// A saga that waits, as far as it is known without its log.
#[derive(Clone, Default)]
pub(crate) struct Waiter {
    /// Unknown for one that was found by its owner alone.
    pub(crate) definition: Option<Arc<str>>,
    pub(crate) is_rollback: bool,
    /// The number of an adoption by this node that is not published yet.
    pub(crate) adoption: Option<u64>,
}

/// When a saga without an executor runs before it gets what it waits for.
pub(crate) struct Parked {
    /// A retry or its deadline.
    pub(crate) due: Option<Timestamp>,
    /// The newest message that was looked at.
    pub(crate) inbox_seen: u64,
}

/// The next saga to run.
pub(super) struct Taken {
    pub(super) saga: SagaId,
    pub(super) since: Timestamp,
    pub(super) waiter: Waiter,
    /// The room it waited for.
    pub(super) reservation: Option<Reservation>,
}

#[derive(Default)]
struct Queue {
    sagas: HashMap<SagaId, Record>,
    lanes: HashMap<LaneKey, Lane>,
    /// Whose turn it is.
    turns: VecDeque<LaneKey>,
    due: BTreeSet<(Timestamp, SagaId)>,
}

/// What is kept of a saga.
#[derive(Default)]
struct Record {
    waiter: Waiter,
    waits: Vec<Waiting>,
    parked: Option<Parked>,
}

impl Record {
    /// An entry of a lane that this is not in any more is stale: the saga waits for the same in another lane.
    fn waiting_in(&self, lane: &LaneKey, wait: Wait) -> Option<&Waiting> {
        self.waits.iter().find(|known| known.wait == wait && known.lane == *lane)
    }
}

/// One of the things that a saga waits for.
struct Waiting {
    wait: Wait,
    since: Timestamp,
    lane: LaneKey,
}

/// What a saga waits for besides its time.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Wait {
    Slot,
    Room { position: usize, phase: Phase },
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct LaneKey {
    definition: Option<Arc<str>>,
    limits: [Option<usize>; 3],
}

#[derive(Default)]
struct Lane {
    limits: AttemptLimits,
    rollbacks: VecDeque<(SagaId, Wait)>,
    others: VecDeque<(SagaId, Wait)>,
    /// Entries whose saga still waits for this; the others are skipped when their turn comes.
    waiting: usize,
    /// Room for the next one.
    permits: Option<Permits>,
    /// Whether a task waits for that room.
    acquiring: bool,
}

/// Entries that a lane may hold beside those that wait, before it is cleaned.
const MOST_STALE: usize = 64;

impl Lane {
    fn class(&mut self, is_rollback: bool) -> &mut VecDeque<(SagaId, Wait)> {
        if is_rollback { &mut self.rollbacks } else { &mut self.others }
    }

    /// Whether its next saga needs nothing but a slot.
    fn has_room(&mut self) -> bool {
        if self.permits.is_none() && !self.acquiring && !self.limits.is_unlimited() {
            self.permits = self.limits.try_acquire();
        }
        self.needs_only_a_slot()
    }

    fn needs_only_a_slot(&self) -> bool {
        self.limits.is_unlimited() || self.permits.is_some()
    }
}

impl RunQueue {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { queue: Mutex::default(), changed: Notify::new(), clock }
    }

    /// Queues a saga for a slot, unless it is queued already.
    pub(crate) fn push(&self, saga: SagaId, waiter: Waiter) {
        self.put_back(saga, waiter, self.clock.now());
    }

    /// The same for one that was taken from the queue for nothing: it has waited since before.
    pub(crate) fn put_back(&self, saga: SagaId, waiter: Waiter, since: Timestamp) {
        self.queue().add(saga, waiter, Wait::Slot, AttemptLimits::default(), since);
        self.changed.notify_one();
    }

    /// Queues an attempt for room. The saga may be executed meanwhile.
    pub(crate) fn wait_for_room(
        &self,
        saga: SagaId,
        waiter: Waiter,
        (position, phase): (usize, Phase),
        limits: AttemptLimits,
    ) {
        self.queue().add(saga, waiter, Wait::Room { position, phase }, limits, self.clock.now());
        self.changed.notify_one();
    }

    /// Keeps a record of a saga whose executor has stopped to wait.
    pub(crate) fn park(&self, saga: SagaId, waiter: Waiter, parked: Parked) {
        let mut queue = self.queue();
        queue.due.extend(parked.due.map(|due| (due, saga)));
        let record = queue.sagas.entry(saga).or_default();
        record.waiter = waiter;
        record.parked = Some(parked);
        drop(queue);
        self.changed.notify_one();
    }

    /// A message has come for a parked saga; says whether there is such a saga.
    pub(crate) fn wake(&self, saga: SagaId) -> bool {
        self.wake_if(saga, |_| true)
    }

    /// The same if the message is newer than what the saga has seen.
    pub(crate) fn wake_for_newer_inbox(&self, saga: SagaId, newest: u64) {
        self.wake_if(saga, |parked| newest > parked.inbox_seen);
    }

    fn wake_if(&self, saga: SagaId, wanted: impl FnOnce(&Parked) -> bool) -> bool {
        let mut queue = self.queue();
        let Some(parked) = queue.sagas.get(&saga).and_then(|record| record.parked.as_ref()) else {
            return false;
        };
        if wanted(parked) {
            queue.add_known(saga, self.clock.now());
            self.changed.notify_one();
        }
        true
    }

    /// Queues the parked sagas whose time has come.
    pub(super) fn wake_due(&self) {
        let now = self.clock.now();
        let mut queue = self.queue();
        while let Some((due, saga)) = queue.due.pop_first() {
            if due > now {
                queue.due.insert((due, saga));
                break;
            }
            queue.add_known(saga, now);
        }
    }

    /// When the next parked saga is due.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.queue().due.first().map(|(due, _)| *due)
    }

    /// No attempt of this saga waits for room any more, as when it is rolled back.
    pub(crate) fn forget_room(&self, saga: SagaId) {
        self.queue().forget_room(saga);
    }

    /// This node owns none of the queued sagas any more.
    pub(super) fn clear(&self) {
        *self.queue() = Queue::default();
    }

    /// Whether a saga waits here.
    pub(super) fn has(&self, saga: SagaId) -> bool {
        self.queue().sagas.contains_key(&saga)
    }

    /// Waits until there may be something else to do.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Whether a saga needs nothing but a slot.
    pub(super) fn is_ready(&self) -> bool {
        self.queue().is_ready()
    }

    /// The next saga that needs nothing but a slot.
    pub(super) fn take(&self) -> Option<Taken> {
        let mut queue = self.queue();
        let any = |_: SagaId| true;
        queue.take(true, &any).or_else(|| queue.take(false, &any))
    }

    /// The next saga that needs nothing more, since it holds a slot.
    pub(super) fn take_holder(&self, holds_slot: impl Fn(SagaId) -> bool) -> Option<Taken> {
        let mut queue = self.queue();
        queue.take(true, &holds_slot).or_else(|| queue.take(false, &holds_slot))
    }

    /// A saga that waits here has got a slot without being taken.
    pub(crate) fn got_slot(&self) {
        self.changed.notify_one();
    }

    /// The lanes for whose room no task waits yet; the caller waits from now on.
    pub(super) fn lanes_without_room(&self) -> Vec<(QueueLane, AttemptLimits)> {
        let mut lanes = Vec::new();
        for (key, lane) in &mut self.queue().lanes {
            if lane.waiting > 0 && !lane.acquiring && !lane.has_room() {
                lane.acquiring = true;
                lanes.push((QueueLane(key.clone()), lane.limits.clone()));
            }
        }
        lanes
    }

    /// There is room for the next saga of this lane.
    pub(super) fn has_room(&self, lane: &QueueLane, permits: Permits) {
        if let Some(lane) = self.queue().lanes.get_mut(&lane.0) {
            lane.acquiring = false;
            lane.permits = Some(permits);
        }
    }

    /// The tasks that waited for room have ended.
    pub(super) fn restart(&self) {
        self.queue().lanes.values_mut().for_each(|lane| lane.acquiring = false);
    }

    /// Up to `limit` sagas that have waited since before this time with nothing due, each with since when, longest first.
    pub(crate) fn since(&self, since: Timestamp, limit: usize) -> Vec<(Timestamp, SagaId)> {
        let queue = self.queue();
        let waiting = queue.sagas.iter().filter_map(|(saga, record)| {
            let from = record.waits.iter().map(|waiting| waiting.since).min()?;
            (from <= since).then_some((from, *saga))
        });
        let mut waiting: Vec<(Timestamp, SagaId)> = waiting.collect();
        drop(queue);
        waiting.sort_unstable();
        waiting.truncate(limit);
        waiting
    }

    /// The limits for whose room attempts wait.
    pub(crate) fn full_limits(&self) -> Vec<FullLimit> {
        let queue = self.queue();
        let mut full: BTreeMap<LimitScope, FullLimit> = BTreeMap::new();
        for (key, lane) in &queue.lanes {
            let blocking = if lane.needs_only_a_slot() { None } else { lane.limits.blocking() };
            let scope = blocking.unwrap_or(&LimitScope::Slots);
            let entries = lane.rollbacks.iter().chain(&lane.others);
            let since = entries.filter_map(|(saga, wait)| queue.waits_since(key, *saga, *wait)).min();
            let Some(since) = since else { continue };
            let found = full.entry(scope.clone()).or_insert_with(|| FullLimit {
                scope: scope.clone(),
                waiting: 0,
                since,
                held_by: None,
            });
            found.waiting += lane.waiting;
            found.since = found.since.min(since);
        }
        full.into_values().collect()
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Names a lane.
pub(super) struct QueueLane(LaneKey);

impl Queue {
    fn waits_since(&self, lane: &LaneKey, saga: SagaId, wait: Wait) -> Option<Timestamp> {
        self.sagas.get(&saga)?.waiting_in(lane, wait).map(|waiting| waiting.since)
    }

    /// Queues a saga that is known here for a slot.
    fn add_known(&mut self, saga: SagaId, since: Timestamp) {
        if let Some(record) = self.sagas.get(&saga) {
            let waiter = record.waiter.clone();
            self.add(saga, waiter, Wait::Slot, AttemptLimits::default(), since);
        }
    }

    fn add(&mut self, saga: SagaId, waiter: Waiter, wait: Wait, limits: AttemptLimits, since: Timestamp) {
        let record = self.sagas.entry(saga).or_default();
        let adoption = waiter.adoption.or(record.waiter.adoption);
        if let Some(known) = record.waits.iter_mut().find(|known| known.wait == wait) {
            known.since = since.min(known.since);
            record.waiter.adoption = adoption;
            if waiter.is_rollback && !record.waiter.is_rollback {
                // It began to roll back while it waited. The other entry is skipped once this one was taken.
                record.waiter.is_rollback = true;
                let lane = known.lane.clone();
                if let Some(lane) = self.lanes.get_mut(&lane) {
                    lane.rollbacks.push_back((saga, wait));
                }
            }
            return;
        }
        let key = LaneKey { definition: waiter.definition.clone(), limits: limits.ids() };
        record.waits.push(Waiting { wait, since, lane: key.clone() });
        let is_rollback = waiter.is_rollback;
        record.waiter = Waiter { adoption, ..waiter };
        let lane = self.lanes.entry(key.clone()).or_insert_with(|| {
            self.turns.push_back(key.clone());
            Lane { limits, ..Lane::default() }
        });
        lane.waiting += 1;
        lane.class(is_rollback).push_back((saga, wait));
        if lane.rollbacks.len() + lane.others.len() > 2 * lane.waiting + MOST_STALE {
            for class in [&mut lane.rollbacks, &mut lane.others] {
                let mut kept = HashSet::new();
                class.retain(|(saga, wait)| {
                    !is_stale(&self.sagas, &key, *saga, *wait) && kept.insert((*saga, *wait))
                });
            }
        }
    }

    fn is_ready(&mut self) -> bool {
        self.lanes.values_mut().any(|lane| lane.waiting > 0 && lane.has_room())
    }

    /// Takes from the first lane, in turn, whose next saga is wanted. A lane's rollbacks come before its others.
    fn take(&mut self, rollbacks: bool, is_wanted: &dyn Fn(SagaId) -> bool) -> Option<Taken> {
        for _ in 0..self.turns.len() {
            let key = self.turns.pop_front()?;
            let Some(lane) = self.lanes.get_mut(&key) else { continue };
            for class in [&mut lane.rollbacks, &mut lane.others] {
                while class.front().is_some_and(|(saga, wait)| is_stale(&self.sagas, &key, *saga, *wait)) {
                    class.pop_front();
                }
            }
            let is_next = rollbacks || lane.rollbacks.is_empty();
            let wanted = lane.class(rollbacks).front().is_some_and(|(saga, _)| is_wanted(*saga));
            let next =
                if is_next && wanted && lane.has_room() { lane.class(rollbacks).pop_front() } else { None };
            let Some((saga, wait)) = next else {
                if lane.waiting == 0 {
                    self.lanes.remove(&key);
                } else {
                    self.turns.push_back(key);
                }
                continue;
            };
            let permits = lane.permits.take();
            lane.waiting -= 1;
            if lane.waiting == 0 {
                self.lanes.remove(&key);
            } else {
                self.turns.push_back(key);
            }
            return self.taken(saga, wait, permits);
        }
        None
    }

    fn taken(&mut self, saga: SagaId, wait: Wait, permits: Option<Permits>) -> Option<Taken> {
        let record = self.sagas.get_mut(&saga)?;
        let place = record.waits.iter().position(|known| known.wait == wait)?;
        let Waiting { since, .. } = record.waits.swap_remove(place);
        let waiter = record.waiter.clone();
        record.waiter.adoption = None;
        // The caller executes it from now on.
        if let Some(due) = record.parked.take().and_then(|parked| parked.due) {
            self.due.remove(&(due, saga));
        }
        if self.sagas.get(&saga).is_some_and(|record| record.waits.is_empty()) {
            self.sagas.remove(&saga);
        }
        let reservation = match wait {
            Wait::Slot => None,
            Wait::Room { position, phase } => {
                Some(Reservation { position, phase, permits: permits.unwrap_or_default() })
            }
        };
        Some(Taken { saga, since, waiter, reservation })
    }

    fn forget_room(&mut self, saga: SagaId) {
        let Some(record) = self.sagas.get_mut(&saga) else { return };
        let (kept, gone) =
            std::mem::take(&mut record.waits).into_iter().partition(|it| it.wait == Wait::Slot);
        record.waits = kept;
        if record.waits.is_empty() && record.parked.is_none() {
            self.sagas.remove(&saga);
        }
        let gone: Vec<Waiting> = gone;
        for Waiting { lane: key, .. } in gone {
            let Some(lane) = self.lanes.get_mut(&key) else { continue };
            // The entry stays until its turn comes.
            lane.waiting -= 1;
            if lane.waiting == 0 {
                self.lanes.remove(&key);
                self.turns.retain(|turn| *turn != key);
            }
        }
    }
}

/// Whether this saga does not wait for this in this lane any more.
fn is_stale(sagas: &HashMap<SagaId, Record>, lane: &LaneKey, saga: SagaId, wait: Wait) -> bool {
    sagas.get(&saga).is_none_or(|record| record.waiting_in(lane, wait).is_none())
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::clock::ManualClock;
    use crate::limit::Limit;

    fn saga(number: u128) -> SagaId {
        SagaId(Uuid::from_u128(number))
    }

    fn waiter(is_rollback: bool) -> Waiter {
        Waiter { definition: Some("order".into()), is_rollback, adoption: None }
    }

    #[test]
    fn rollback_that_begins_in_the_queue_runs_first_and_once() {
        let queue = RunQueue::new(Arc::new(ManualClock::default()));
        for number in 1..=3 {
            queue.push(saga(number), waiter(false));
        }
        queue.push(saga(3), waiter(true));
        let order = std::iter::from_fn(|| queue.take().map(|taken| taken.saga));
        assert_eq!(order.collect::<Vec<_>>(), [saga(3), saga(1), saga(2)]);
    }

    #[test]
    fn saga_queued_again_in_another_lane_leaves_its_old_one() {
        let queue = RunQueue::new(Arc::new(ManualClock::default()));
        queue.push(saga(1), waiter(false));
        queue.push(saga(2), waiter(false));
        queue.push(saga(1), waiter(true));
        assert_eq!(queue.take().map(|taken| taken.saga), Some(saga(1)));
        queue.push(saga(1), Waiter::default());
        let order = std::iter::from_fn(|| queue.take().map(|taken| taken.saga));
        assert_eq!(order.take(3).collect::<Vec<_>>(), [saga(2), saga(1)]);
        assert!(!queue.is_ready(), "nothing is left");
    }

    fn limited(limit: &Limit) -> AttemptLimits {
        AttemptLimits { host: Some(limit.clone()), ..AttemptLimits::default() }
    }

    #[test]
    fn limit_with_room_is_not_what_a_saga_without_a_slot_waits_for() {
        let queue = RunQueue::new(Arc::new(ManualClock::default()));
        let limit = Limit::new(LimitScope::Host("a:80".into()), 1);
        queue.wait_for_room(saga(1), waiter(false), (0, Phase::Do), limited(&limit));
        assert!(queue.is_ready(), "it needs nothing but a slot");
        let full = queue.full_limits();
        assert_eq!((full.len(), &full[0].scope), (1, &LimitScope::Slots));
        assert!(limit.is_full(), "room is kept for it");
        drop(queue);
        let queue = RunQueue::new(Arc::new(ManualClock::default()));
        let _held = limit.try_acquire();
        queue.wait_for_room(saga(1), waiter(false), (0, Phase::Do), limited(&limit));
        assert!(!queue.is_ready());
        assert_eq!(&queue.full_limits()[0].scope, limit.scope());
    }

    #[test]
    fn saga_with_a_slot_is_taken_before_its_lane_gets_another() {
        let queue = RunQueue::new(Arc::new(ManualClock::default()));
        let limits: Vec<Limit> = (0..2).map(|_| Limit::new(LimitScope::Host("a:80".into()), 1)).collect();
        for (number, limit) in (1..).zip(&limits) {
            queue.wait_for_room(saga(number), waiter(false), (0, Phase::Do), limited(limit));
        }
        let taken =
            queue.take_holder(|it| it == saga(2)).map(|taken| (taken.saga, taken.reservation.is_some()));
        assert_eq!(taken, Some((saga(2), true)));
        assert!(queue.take_holder(|it| it == saga(2)).is_none());
        assert_eq!(queue.take().map(|taken| taken.saga), Some(saga(1)));
    }
}
