//! Act: performs the effects of a decision once it is durable.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use backstitch_kernel::saga::{Effect, Outcome, Phase, Status};
use backstitch_kernel::{StepId, Timestamp};
use futures::future::ready;

use super::Executor;
use crate::call::Call;
use crate::jobs::worker::{self, OfferedAttempt};
use crate::runtime::attempts;
use crate::runtime::room::{LimitedAttempt, Permits, Reservation};
use crate::store::outbox::NewMessage;

/// An attempt that begins so soon after its decision has not waited for anything.
const AT_ONCE: Duration = Duration::from_secs(1);

/// An attempt that runs here.
pub(super) struct RunningAttempt {
    pub(super) position: usize,
    pub(super) phase: Phase,
    /// When its time is over, in microseconds: counted from its decision, or from when it could begin if that took long.
    until: Arc<AtomicI64>,
}

impl RunningAttempt {
    pub(super) fn until(&self) -> Timestamp {
        Timestamp::from_micros(self.until.load(Ordering::Relaxed))
    }
}

/// What ran beside the saga has ended.
pub(super) enum TaskEnd {
    Attempt {
        position: usize,
        step: StepId,
        phase: Phase,
        attempt: u32,
        outcome: Outcome,
        outgoing: Vec<NewMessage>,
    },
    Room(Reservation),
    /// Whether an outside attempt was withdrawn before a worker leased it; its outcome is in the inbox.
    Withdrawal(bool),
}

impl Executor {
    pub(super) fn act(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Run { position, phase, attempt } => self.run_attempt(position, phase, attempt),
                Effect::Admit { position } => self.ask_for_room(position),
                Effect::SignalRollback => {
                    self.rollback.send_replace(true);
                    self.withdraw_unleased_attempts();
                }
            }
        }
    }

    fn run_attempt(&mut self, position: usize, phase: Phase, attempt: u32) {
        let call = Arc::new(Call {
            saga: self.saga,
            definition: self.definition.clone(),
            position,
            phase,
            attempt,
            state: self.state.clone(),
            rollback: self.rollback.subscribe(),
            max_payload: self.shared.options.max_payload,
            outgoing: std::sync::Mutex::default(),
        });
        let shared = self.shared.clone();
        let room = self.take_reservation(position, phase);
        let limited = LimitedAttempt::new(self.definition.limits(position, phase), self.run_slot.active());
        let step = &self.definition.definition.steps()[position];
        let timeout = step.time_of_attempt(phase, &self.state.steps[position], self.state.at);
        let begins = timeout.map(|timeout| {
            let ends = self.state.at.plus(timeout);
            let until = Arc::new(AtomicI64::new(ends.as_micros()));
            self.running.push(RunningAttempt { position, phase, until: until.clone() });
            let (shared, active) = (shared.clone(), self.run_slot.active().clone());
            move || {
                let now_ends = shared.options.clock.now().plus(timeout);
                if now_ends.since(ends) > AT_ONCE {
                    until.store(now_ends.as_micros(), Ordering::Relaxed);
                    active.wake();
                }
            }
        });
        let epoch = self.epoch;
        self.attempts.start(self.shared.tracked(async move {
            let outcome = attempts::run(&shared, call.clone(), epoch, begins).await;
            drop((room, limited));
            let step = call.step().clone();
            // Messages of an attempt that failed are dropped.
            let outgoing =
                if matches!(outcome, Outcome::Succeeded(_)) { call.take_outgoing() } else { Vec::new() };
            TaskEnd::Attempt { position, step, phase, attempt, outcome, outgoing }
        }));
    }

    fn ask_for_room(&mut self, position: usize) {
        if self.admitting.contains(&position) {
            return;
        }
        let phase = if self.state.status == Status::Compensating { Phase::Undo } else { Phase::Do };
        self.admitting.push(position);
        let definition = self.definition.clone();
        let limits = definition.limits(position, phase);
        if let Some(permits) = self.take_reservation(position, phase).or_else(|| limits.try_acquire()) {
            let reservation = Reservation { position, phase, permits };
            self.tasks.push(Box::pin(ready(TaskEnd::Room(reservation))));
            return;
        }
        let waiter = self.waiter();
        self.shared.run_queue.wait_for_room(self.saga, waiter, (position, phase), limits.clone());
    }

    fn take_reservation(&mut self, position: usize, phase: Phase) -> Option<Permits> {
        let found = self.reserved.iter().position(|it| it.is_for(position, phase))?;
        Some(self.reserved.swap_remove(found).permits)
    }

    /// The rollback has begun: no outside worker may lease an action any more.
    pub(super) fn withdraw_unleased_attempts(&mut self) {
        for (step, state) in self.definition.definition.steps().iter().zip(&self.state.steps) {
            let attempt = &state.forward;
            if attempt.in_flight() && !attempt.runs_here() {
                let offered =
                    OfferedAttempt { step: step.id.clone(), phase: Phase::Do, attempt: attempt.attempts };
                self.withdrawing += 1;
                let withdrawn = worker::withdraw(self.shared.clone(), self.saga, offered);
                self.tasks.push(Box::pin(async move { TaskEnd::Withdrawal(withdrawn.await) }));
            }
        }
    }
}
