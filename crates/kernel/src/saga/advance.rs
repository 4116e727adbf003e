//! What follows from a state without further input: steps that can start, due compensations, the end.

use std::collections::BTreeMap;
use std::time::Duration;

use super::MAX_INTERRUPTIONS;
use super::definition::Step;
use super::event::{Event, MAX_RESULTS_LEN, Outside, Phase};
use super::input::Effect;
use super::state::{PhaseState, Progress, Status, StepState};
use super::transition::Transition;
use crate::error::{ErrorKind, StepError};
use crate::failpoints::{Bug, is_enabled};
use crate::id::{SagaId, StepId};
use crate::payload::Payload;
use crate::retry::Retry;

/// Advances the saga as far as its state allows.
pub(super) fn advance(next: &mut Transition<'_>) {
    give_up_on_the_often_interrupted(next);
    go_on(next);
}

/// The same when the clock is checked: a saga past its deadline begins its rollback.
pub(super) fn advance_by_the_clock(next: &mut Transition<'_>) {
    give_up_on_the_often_interrupted(next);
    let going_forward = matches!(next.state.status, Status::Pending | Status::Running);
    if going_forward && next.is_late() && !next.all_succeeded() {
        let error = StepError::new(ErrorKind::DeadlineExceeded, "the saga's deadline has passed");
        begin_rollback(next, None, error);
    }
    go_on(next);
}

fn go_on(next: &mut Transition<'_>) {
    match next.state.status {
        Status::Pending | Status::Running => go_forward(next),
        Status::Compensating => go_back(next),
        Status::Succeeded | Status::Failed | Status::Compensated => {}
    }
}

/// Begins the rollback: only compensations start from here on. Running attempts are awaited.
pub(super) fn begin_rollback(next: &mut Transition<'_>, failed_step: Option<StepId>, error: StepError) {
    let place = failed_step.as_ref().and_then(|step| next.definition.position(step));
    let event = Event::SagaCompensating { failed_step, error };
    match place {
        Some(position) => next.emit_at(position, event),
        None => next.emit(event),
    }
    if next.state.steps.iter().any(|step| step.forward.in_flight()) {
        next.perform(Effect::SignalRollback);
    }
}

/// Ends a step's action without further attempts. Doubt left by any attempt stays.
pub(super) fn fail_step(next: &mut Transition<'_>, position: usize, error: StepError) {
    let step = next.definition.steps()[position].id.clone();
    let state = &next.state.steps[position];
    let attempt = state.forward.attempts;
    let event = if error.kind == ErrorKind::TimedOut {
        Event::StepTimedOut { step, attempt, error }
    } else {
        let in_doubt = (state.in_doubt || error.kind.leaves_doubt()) && !is_enabled(Bug::DoubtForgotten);
        Event::StepFailed { step, attempt, error, in_doubt }
    };
    next.emit_at(position, event);
}

fn interrupted() -> StepError {
    StepError::new(ErrorKind::Interrupted, "the node that ran the attempt went away before it ended")
}

fn give_up_on_the_often_interrupted(next: &mut Transition<'_>) {
    if !matches!(next.state.status, Status::Pending | Status::Running) {
        return;
    }
    for position in 0..next.state.steps.len() {
        let forward = &next.state.steps[position].forward;
        if forward.progress == Progress::Interrupted && forward.interruptions >= MAX_INTERRUPTIONS {
            fail_step(next, position, interrupted());
            if next.state.status != Status::Compensating {
                let step = next.definition.steps()[position].id.clone();
                begin_rollback(next, Some(step), interrupted());
            }
        }
    }
}

fn go_forward(next: &mut Transition<'_>) {
    if next.all_succeeded() {
        next.emit(Event::SagaSucceeded);
        return;
    }
    // A saga past its deadline starts nothing, even before the deadline is judged.
    if next.state.paused || next.now.draining || next.is_late() {
        return;
    }
    for position in 0..next.state.steps.len() {
        if !next.wants_to_run(position) {
            continue;
        }
        if next.definition.steps()[position].limited || next.is_full(position) {
            next.perform(Effect::Admit { position });
        } else {
            next.run(position, Phase::Do);
        }
    }
}

fn go_back(next: &mut Transition<'_>) {
    // These steps get no further attempt, so what is known about them now is final.
    for position in 0..next.state.steps.len() {
        let forward = &next.state.steps[position].forward;
        match forward.progress {
            Progress::Interrupted => fail_step(next, position, interrupted()),
            Progress::Waiting { .. } => {
                let error = forward.error.clone().unwrap_or_else(interrupted);
                fail_step(next, position, error);
            }
            Progress::Idle
            | Progress::Running
            | Progress::Queued { .. }
            | Progress::Outside { .. }
            | Progress::Done
            | Progress::Failed
            | Progress::Skipped => {}
        }
        let undo = &next.state.steps[position].undo;
        if undo.progress == Progress::Interrupted && undo.interruptions >= MAX_INTERRUPTIONS {
            let step = next.definition.steps()[position].id.clone();
            let (attempt, error) = (undo.attempts, interrupted());
            next.emit_at(position, Event::StepCompensationFailed { step, attempt, error });
        }
    }
    if next.state.steps.iter().any(|step| step.forward.in_flight()) {
        return;
    }
    if !next.state.paused && !next.now.draining {
        take_compensations_up_again(next);
        start_compensations(next);
    }
    end_rollback(next);
}

fn take_compensations_up_again(next: &mut Transition<'_>) {
    for position in 0..next.state.steps.len() {
        let due = match next.state.steps[position].undo.progress {
            Progress::Interrupted => true,
            Progress::Waiting { until } => until <= next.now.at,
            Progress::Idle
            | Progress::Running
            | Progress::Queued { .. }
            | Progress::Outside { .. }
            | Progress::Done
            | Progress::Failed
            | Progress::Skipped => false,
        };
        if due {
            next.compensate(position);
        }
    }
}

fn start_compensations(next: &mut Transition<'_>) {
    // A compensation that waits for room keeps its place in the order.
    let mut asking = Vec::new();
    loop {
        if next.compensations_in_progress() + asking.len() >= next.definition.compensation_concurrency() {
            return;
        }
        let ready = (0..next.state.steps.len())
            .filter(|position| next.can_be_undone(*position) && !asking.contains(position));
        // Of those that may start, the step that finished last goes first.
        let settled = |&position: &usize| next.state.steps[position].settled_seq;
        let chosen = if is_enabled(Bug::CompensationOrderReversed) {
            ready.min_by_key(settled)
        } else {
            ready.max_by_key(settled)
        };
        let Some(position) = chosen else {
            return;
        };
        if !next.compensate(position) {
            asking.push(position);
        }
    }
}

fn end_rollback(next: &mut Transition<'_>) {
    let busy = next.state.steps.iter().any(|step| step.undo.in_progress());
    let held_back = (0..next.state.steps.len()).any(|position| next.can_be_undone(position));
    let stuck = (0..next.state.steps.len())
        .filter(|&position| next.state.steps[position].undo.progress == Progress::Failed)
        .max_by_key(|&position| next.state.steps[position].parked_seq);
    match stuck {
        _ if busy || held_back => {}
        Some(position) => {
            let step = next.definition.steps()[position].id.clone();
            let error = next.state.steps[position].undo.error.clone().unwrap_or_else(interrupted);
            next.emit_at(position, Event::SagaFailed { step, error });
        }
        None => {
            let results = compensation_results(next);
            next.emit(Event::SagaCompensated { results });
        }
    }
}

/// The results of the compensations, if one event can contain them.
fn compensation_results(next: &Transition<'_>) -> BTreeMap<StepId, Payload> {
    let steps = next.definition.steps().iter().zip(&next.state.steps);
    let given = steps.filter_map(|(step, state)| {
        let result = state.compensation_result.as_ref().filter(|result| !result.is_null())?;
        Some((step.id.clone(), result.clone()))
    });
    let results: BTreeMap<_, _> = given.collect();
    if results.values().map(Payload::len).sum::<usize>() > MAX_RESULTS_LEN {
        BTreeMap::new()
    } else {
        results
    }
}

impl Transition<'_> {
    fn step(&self, position: usize) -> (&Step, &StepState) {
        (&self.definition.steps()[position], &self.state.steps[position])
    }

    pub(super) fn is_late(&self) -> bool {
        self.state.started.deadline.is_some_and(|deadline| deadline <= self.now.at)
    }

    fn all_succeeded(&self) -> bool {
        self.state.steps.iter().all(|step| step.forward.progress == Progress::Done)
    }

    /// Whether a step's action is due to start or to be retried.
    fn wants_to_run(&self, position: usize) -> bool {
        let (step, state) = self.step(position);
        match state.forward.progress {
            Progress::Idle => step
                .depends_on
                .iter()
                .all(|&parent| self.state.steps[parent].forward.progress == Progress::Done),
            Progress::Interrupted => state.forward.interruptions < MAX_INTERRUPTIONS,
            Progress::Waiting { until } => until <= self.now.at,
            Progress::Running
            | Progress::Queued { .. }
            | Progress::Outside { .. }
            | Progress::Done
            | Progress::Failed
            | Progress::Skipped => false,
        }
    }

    /// Starts a limited step that now has room; `false` if it no longer needs to run.
    pub(super) fn start_admitted(&mut self, position: usize) -> bool {
        let wanted = self.wants_to_run(position) && !self.state.paused && !self.now.draining;
        if wanted {
            self.run(position, Phase::Do);
        }
        wanted
    }

    /// Starts a compensation that now has room; `false` if it no longer needs to run.
    pub(super) fn start_admitted_compensation(&mut self, position: usize) -> bool {
        let of = &self.state.steps[position].undo;
        let again = match of.progress {
            Progress::Interrupted => of.interruptions < MAX_INTERRUPTIONS,
            Progress::Waiting { until } => until <= self.now.at,
            Progress::Idle
            | Progress::Running
            | Progress::Queued { .. }
            | Progress::Outside { .. }
            | Progress::Done
            | Progress::Failed
            | Progress::Skipped => false,
        };
        let first = self.can_be_undone(position)
            && self.compensations_in_progress() < self.definition.compensation_concurrency();
        let awaits_actions = self.state.steps.iter().any(|step| step.forward.in_flight());
        let wanted = (again || first) && !awaits_actions && !self.state.paused && !self.now.draining;
        if wanted {
            self.run(position, Phase::Undo);
        }
        wanted
    }

    /// Starts a compensation, or asks for room; returns whether it has started.
    fn compensate(&mut self, position: usize) -> bool {
        if self.is_full(position) {
            self.perform(Effect::Admit { position });
            return false;
        }
        self.run(position, Phase::Undo);
        true
    }

    fn compensations_in_progress(&self) -> usize {
        self.state.steps.iter().filter(|step| step.undo.in_progress()).count()
    }

    fn run(&mut self, position: usize, phase: Phase) {
        let (step, state) = self.step(position);
        let attempt = state.phase(phase).attempts + 1;
        let outside = step.outside(phase).map(|(queue, wait)| Outside {
            queue: queue.clone(),
            queue_until: wait.map(|wait| self.now.at.plus(wait)),
            until: None,
        });
        let (step, leaves_it) = (step.id.clone(), outside.is_some());
        let event = match phase {
            Phase::Do => Event::StepStarted { step, attempt, outside },
            Phase::Undo => Event::StepCompensating { step, attempt, outside },
        };
        self.emit_at(position, event);
        if !leaves_it {
            self.perform(Effect::Run { position, phase, attempt });
        }
    }

    fn policy(&self, position: usize, phase: Phase) -> Option<&Retry> {
        let step = &self.definition.steps()[position];
        match phase {
            Phase::Do => Some(&step.retry),
            Phase::Undo => step.compensation.as_ref().map(|undo| &undo.retry),
        }
    }

    /// Whether another attempt may follow the one that has just failed.
    pub(super) fn may_retry(&self, saga: SagaId, position: usize, phase: Phase, error: &StepError) -> bool {
        let Some(policy) = self.policy(position, phase) else { return false };
        let state = self.state.steps[position].phase(phase);
        let wait = wait_before_retry(policy, state, spread(saga, position), error);
        policy.allows_another(state.failures + 1)
            && state.time_left(policy, self.now.at).is_none_or(|left| wait < left)
    }

    pub(super) fn retry_later(&mut self, saga: SagaId, position: usize, phase: Phase, mut error: StepError) {
        let Some(policy) = self.policy(position, phase) else {
            return;
        };
        let (step, state) = self.step(position);
        let state = state.phase(phase);
        // The log shows the honoured wait.
        error.retry_after = error.retry_after.map(|wished| wished.min(policy.longest_wish()));
        let wait = wait_before_retry(policy, state, spread(saga, position), &error);
        let event = Event::StepRetry {
            step: step.id.clone(),
            phase,
            attempt: state.attempts,
            // Interruptions and operator retries cost no retry, so the count continues from here.
            max_attempts: state.attempts + policy.count.saturating_sub(state.failures),
            error,
            retry_at: self.now.at.plus(wait),
        };
        self.emit_at(position, event);
    }

    /// Whether the step must be undone and its compensation has not begun.
    fn owes_compensation(&self, position: usize) -> bool {
        let (step, state) = self.step(position);
        step.compensation.is_some() && state.may_have_happened() && state.undo.progress == Progress::Idle
    }

    /// Whether the step's compensation may begin now: it is owed, all later steps are settled, and no other failed
    /// compensation
    /// prevents it.
    fn can_be_undone(&self, position: usize) -> bool {
        self.owes_compensation(position)
            && (!self.is_stopped_by_a_failed_compensation() || self.was_asked_for_again(position))
            && (is_enabled(Bug::CompensationOrderReversed)
                || self.definition.steps()[position]
                    .successors
                    .iter()
                    .all(|&after| self.is_out_of_the_way(after)))
    }

    fn is_out_of_the_way(&self, position: usize) -> bool {
        let undo = &self.state.steps[position].undo;
        let given_up = undo.progress == Progress::Failed;
        !self.owes_compensation(position)
            && !undo.in_progress()
            && (!given_up || self.definition.continues_past_failed_compensation())
    }

    fn is_stopped_by_a_failed_compensation(&self) -> bool {
        !self.definition.continues_past_failed_compensation()
            && self.state.steps.iter().any(|step| step.undo.progress == Progress::Failed)
    }

    /// Whether an operator requested this compensation again: then it runs although another one is stuck.
    fn was_asked_for_again(&self, position: usize) -> bool {
        self.state.steps[position].undo.attempts > 0
    }
}

/// The policy's wait, or the service's `Retry-After` if it is longer and honoured.
fn wait_before_retry(policy: &Retry, state: &PhaseState, spread: u64, error: &StepError) -> Duration {
    let wished = error.retry_after.unwrap_or_default().min(policy.longest_wish());
    policy.wait(state.failures + 1, spread).max(wished)
}

/// Varies the jitter between sagas and steps.
fn spread(saga: SagaId, position: usize) -> u64 {
    let (high, low) = saga.0.as_u64_pair();
    high ^ low.rotate_left(17) ^ (position as u64)
}
