//! Wait: what a saga waits for, and what it gives back meanwhile: its slot, its place in memory, its owner.

use backstitch_kernel::Timestamp;
use backstitch_kernel::saga::{Input, Status};
use futures::StreamExt;
use tokio::sync::OwnedSemaphorePermit;

use super::act::{RunningAttempt, TaskEnd};
use super::plan::{Ownership, ownership_at_rest};
use super::{AttemptSlot, Executor, Flow, QueuedInput};
use crate::inbox::Received;
use crate::runtime::room::{HeldSlot, Reservation};
use crate::runtime::run_queue::Parked;
use crate::runtime::{Grant, Waiter};
use crate::store::Release;

/// Why a saga goes on.
pub(super) enum Wakeup {
    /// A message or a grant has come, or the engine stops.
    Notified,
    /// A retry, a deadline or the end of a wait is due.
    Due,
    Ended(TaskEnd),
}

impl Executor {
    pub(super) async fn wait(&mut self) -> Wakeup {
        let now = self.shared.options.clock.now();
        let attempt = self.next_attempt();
        let ends = self.running.iter().map(RunningAttempt::until);
        self.run_slot.active().waits(self.state.at, attempt.into_iter().chain(ends).max());
        self.shared.stalled.executed(self.saga);
        // While the engine drains, nothing becomes due: the next owner of the saga sees to it.
        let rests_at = self.state.at.plus(self.shared.options.release_after);
        let rests_at = Some(rests_at).filter(|at| self.state.anything_is_queued() && *at > now);
        let due = attempt.into_iter().chain(self.state.deadline()).chain(rests_at).min();
        let due = due.filter(|_| !self.shared.is_stopping());
        let due = async {
            match due {
                Some(due) => tokio::time::sleep(due.since(now)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.run_slot.active().woken() => Wakeup::Notified,
            ended = self.attempts.next() => Wakeup::Ended(ended),
            Some(ended) = self.tasks.next() => Wakeup::Ended(ended),
            () = due => Wakeup::Due,
        }
    }

    pub(super) async fn handle(&mut self, wakeup: Wakeup) -> Flow {
        match wakeup {
            Wakeup::Notified => self.take_grants_and_inbox().await,
            Wakeup::Due => {
                // If no worker has come for so long, the saga is released.
                self.may_rest |= self.state.anything_is_queued();
                self.process(Input::Wake, Vec::new()).await
            }
            Wakeup::Ended(TaskEnd::Attempt { position, step, phase, attempt, outcome, outgoing }) => {
                self.running.retain(|it| (it.position, it.phase) != (position, phase));
                self.process(Input::Finished { step, phase, attempt, outcome }, outgoing).await
            }
            Wakeup::Ended(TaskEnd::Room(reservation)) => self.use_room(reservation).await,
            Wakeup::Ended(TaskEnd::Withdrawal(withdrawn)) => {
                self.withdrawing -= 1;
                self.may_rest |= !withdrawn;
                // Also if nothing was left to withdraw: an earlier try may have done it without an answer.
                self.run_slot.active().wake_for_inbox();
                Flow::Owned
            }
        }
    }

    async fn take_grants_and_inbox(&mut self) -> Flow {
        for Grant { slot, reservation } in self.run_slot.active().take_grants() {
            if let Some(slot) = slot {
                self.take_slot(slot);
            }
            let flow = match reservation {
                Some(reservation) => self.use_room(reservation).await,
                None => self.process(Input::Wake, Vec::new()).await,
            };
            if flow == Flow::Stop {
                return Flow::Stop;
            }
        }
        if !self.run_slot.active().take_inbox_flag() {
            return Flow::Owned;
        }
        let messages = self.read_inbox().await;
        self.process_all(messages.into_iter().map(QueuedInput::from).collect()).await
    }

    async fn use_room(&mut self, reservation: Reservation) -> Flow {
        let position = reservation.position;
        self.admitting.retain(|&waiting| waiting != position);
        let step = self.definition.definition.steps()[position].id.clone();
        self.reserved.push(reservation);
        self.process(Input::Admitted { step }, Vec::new()).await
    }

    /// Messages that were not read yet. A store that does not answer now is asked again later.
    pub(super) async fn read_inbox(&mut self) -> Vec<Received> {
        match self.shared.answer(self.shared.store.load(&[self.saga])).await {
            Ok(found) => {
                self.store_answered();
                let waiting = found.into_iter().flat_map(|stored| stored.inbox);
                let new: Vec<_> = waiting.filter(|received| received.seq > self.inbox_seen).collect();
                self.saw_inbox(new.last().map_or(self.inbox_seen, |newest| newest.seq));
                new
            }
            Err(error) => {
                self.store_failed("the inbox cannot be read", &error);
                self.backoff.wait(&self.shared).await;
                self.run_slot.active().wake_for_inbox();
                Vec::new()
            }
        }
    }

    pub(super) fn saw_inbox(&mut self, newest: u64) {
        self.inbox_seen = newest;
        self.run_slot.active().saw_inbox(newest);
    }

    /// When an attempt is due, or the time of an outside worker is over. Attempts that wait for room or for a slot are due
    /// already; only these let them start.
    fn next_attempt(&self) -> Option<Timestamp> {
        if matches!(self.slot, AttemptSlot::Queued) {
            let all: Vec<usize> = (0..self.state.steps.len()).collect();
            return self.state.next_attempt_besides(&all);
        }
        self.state.next_attempt_besides(&self.admitting)
    }

    /// Whether the engine stops, this node was declared dead, or it drains and no attempt runs.
    pub(super) fn must_stop(&self) -> bool {
        self.shared.is_stopped()
            || self.epoch != self.shared.epoch()
            || (self.shared.is_stopping() && !self.state.anything_runs_here())
    }

    /// A saga holds one slot at most: another one is given back.
    pub(super) fn take_slot(&mut self, permit: OwnedSemaphorePermit) {
        if matches!(self.slot, AttemptSlot::Held(_)) {
            return;
        }
        self.slot = AttemptSlot::Held(HeldSlot::new(permit, self.run_slot.active()));
        if !self.admitting.is_empty() {
            // What waits for room needs no other slot any more.
            self.shared.run_queue.got_slot();
        }
    }

    /// Gives the slot back where no attempt runs here. A saga that waits then stays in memory if there is a place for it;
    /// otherwise it leaves a record in the run queue and nothing else.
    pub(super) fn parks(&mut self) -> bool {
        if matches!(self.slot, AttemptSlot::Wanted) {
            self.slot = AttemptSlot::Queued;
            self.shared.run_queue.push(self.saga, self.waiter());
        }
        if !self.attempts.is_empty() || !self.tasks.is_empty() || self.state.anything_runs_here() {
            self.resting = None;
            return false;
        }
        // A grant without a slot is for the one that is held.
        if matches!(self.slot, AttemptSlot::Held(_)) && !self.run_slot.active().has_grants() {
            self.slot = AttemptSlot::NotNeeded;
        }
        if self.resting.is_none() {
            self.resting = self.shared.resting.clone().try_acquire_owned().ok();
        }
        let stays = self.resting.is_some() || self.run_slot.active().has_unread_inbox();
        if stays || self.shared.is_stopping() || !self.run_slot.active().refuse_grants() {
            return false;
        }
        let due = self.next_attempt().into_iter().chain(self.state.deadline()).min();
        let parked = Parked { due, inbox_seen: self.inbox_seen };
        self.shared.run_queue.park(self.saga, self.waiter(), parked);
        true
    }

    pub(super) fn waiter(&self) -> Waiter {
        let is_rollback = self.state.status == Status::Compensating;
        Waiter { definition: Some(self.definition.name.clone()), is_rollback, adoption: None }
    }

    /// Releases a saga that was woken for nothing and has nothing to do for long. Nothing was decided, so no event says so
    /// (ADR 16); the log's head fences it all the same.
    pub(super) async fn release_at_rest(&mut self) -> bool {
        if !std::mem::take(&mut self.may_rest)
            || !self.tasks.is_empty()
            || !self.attempts.is_empty()
            || !self.admitting.is_empty()
            || matches!(self.slot, AttemptSlot::Wanted | AttemptSlot::Queued)
            || self.shared.is_stopping()
        {
            return false;
        }
        let (release_after, now) = (self.shared.options.release_after, self.shared.options.clock.now());
        let definition = &self.definition.definition;
        let Ownership::Release { wake_at } = ownership_at_rest(definition, &self.state, release_after, now)
        else {
            return false;
        };
        let (saga, epoch, seq, inbox_seen) = (self.saga, self.epoch, self.state.seq, self.inbox_seen);
        let release = Release { saga, epoch, seq, inbox_seen, wake_at };
        loop {
            match self.shared.answer(self.shared.store.release(release)).await {
                Ok(true) => {
                    self.shared.adoption.wake();
                    return true;
                }
                // There is a newer message or event, or an earlier try was done though it was not answered.
                Ok(false) => {
                    if let Some(is_owned) = self.is_owned().await {
                        // The message that came meanwhile has notified this executor only.
                        if is_owned {
                            self.run_slot.active().wake_for_inbox();
                        } else {
                            self.shared.adoption.wake();
                        }
                        return !is_owned;
                    }
                }
                Err(error) => self.store_failed("a saga that waits cannot be released", &error),
            }
            // Its owner is unknown, and a decision made now might compete with the next owner.
            self.backoff.wait(&self.shared).await;
            if self.shared.is_stopping() || self.epoch != self.shared.epoch() {
                return true;
            }
        }
    }

    /// Whether the store says that this node owns the saga as it is here; `None` when the store does not answer. One whose
    /// log is longer is left to the sweep, which loads it anew.
    async fn is_owned(&mut self) -> Option<bool> {
        match self.shared.answer(self.shared.store.load(&[self.saga])).await {
            Ok(found) => Some(found.iter().any(|stored| {
                stored.summary.owner == Some(self.epoch) && stored.log.len() as u64 == self.state.seq
            })),
            Err(error) => {
                self.store_failed("the owner of a saga cannot be read", &error);
                None
            }
        }
    }
}
